"""Multihead attention of the fairway sequence toolkit (time-first tensors)."""
from typing import Dict, Optional, Tuple

import torch
from torch import Tensor, nn


def lengths_to_padding_mask(lens: Tensor, max_len: Optional[int] = None) -> Tensor:
    max_len = int(lens.max()) if max_len is None else max_len
    return torch.arange(max_len, device=lens.device)[None] >= lens[:, None]


class FairwayAttention(nn.Module):
    """query: Time x Batch x Channel. Encoder-decoder attention if key is not query.

    Args of forward:
        key_padding_mask (ByteTensor/BoolTensor): (batch, src_len), nonzero = padding,
            each sample with its own.
        attn_mask (Tensor): (tgt_len, src_len), added to the scores, e.g. -inf above the diagonal.
        incremental_state: dict that carries keys and values between decoder steps.
        static_kv: keys and values of the encoder are the same in every step.
    """

    def __init__(self, embed_dim, num_heads, kdim=None, dropout=0.0, bias=True):
        super().__init__()
        kdim = kdim or embed_dim
        self.num_heads, self.head_dim = num_heads, embed_dim // num_heads
        self.scaling = self.head_dim ** -0.5
        self.q_proj = nn.Linear(embed_dim, embed_dim, bias=bias)
        self.k_proj = nn.Linear(kdim, embed_dim, bias=bias)
        self.v_proj = nn.Linear(kdim, embed_dim, bias=bias)
        self.out_proj = nn.Linear(embed_dim, embed_dim, bias=bias)
        self.dropout_module = nn.Dropout(dropout)
        self._name = f"attn_{id(self)}"

    def _shape(self, t: Tensor, bsz: int) -> Tensor:
        return t.contiguous().view(-1, bsz * self.num_heads, self.head_dim).transpose(0, 1)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Optional[Tensor] = None,
        attn_mask: Optional[Tensor] = None,
        incremental_state: Optional[Dict] = None,
        static_kv: bool = False,
        need_weights: bool = True,
    ) -> Tuple[Tensor, Optional[Tensor]]:
        tgt_len, bsz, embed_dim = query.size()
        saved = incremental_state.get(self._name) if incremental_state is not None else None
        q = self._shape(self.q_proj(query) * self.scaling, bsz)
        if saved is not None and static_kv:
            k, v = saved["k"], saved["v"]
        else:
            k, v = self._shape(self.k_proj(key), bsz), self._shape(self.v_proj(value), bsz)
            if saved is not None:
                k, v = torch.cat([saved["k"], k], 1), torch.cat([saved["v"], v], 1)
        if incremental_state is not None:
            incremental_state[self._name] = {"k": k, "v": v}
        src_len = k.size(1)

        attn_weights = torch.bmm(q, k.transpose(1, 2))
        if attn_mask is not None:
            attn_weights = attn_weights + attn_mask.unsqueeze(0)
        if key_padding_mask is not None:
            pad = key_padding_mask.bool().unsqueeze(1)
            pad = pad.repeat(self.num_heads, 1, 1)
            attn_weights = attn_weights.masked_fill(pad, float("-inf"))

        attn_float = torch.softmax(attn_weights, dim=-1, dtype=torch.float32)
        attn_probs = self.dropout_module(attn_float.type_as(attn_weights))
        attn = torch.bmm(attn_probs, v)
        attn = attn.transpose(0, 1).contiguous().view(tgt_len, bsz, embed_dim)
        attn = self.out_proj(attn)
        weights = None
        if need_weights:
            weights = attn_float.view(bsz, self.num_heads, tgt_len, src_len).mean(1)
        return attn, weights


class DecoderStep(nn.Module):
    def __init__(self, dim, heads, ffn):
        super().__init__()
        self.self_attn, self.encoder_attn = FairwayAttention(dim, heads), FairwayAttention(dim, heads)
        self.norms = nn.ModuleList(nn.LayerNorm(dim) for _ in range(3))
        self.fc1, self.fc2 = nn.Linear(dim, ffn), nn.Linear(ffn, dim)

    def forward(self, x, enc, enc_pad=None, state=None, attn_mask=None):
        y, _ = self.self_attn(x, x, x, attn_mask=attn_mask, incremental_state=state)
        x = self.norms[0](x + y)
        y, w = self.encoder_attn(x, enc, enc, key_padding_mask=enc_pad, incremental_state=state, static_kv=True)
        x = self.norms[1](x + y)
        return self.norms[2](x + self.fc2(torch.relu(self.fc1(x)))), w
