# Multihead attention in the time-first layout of fairseq, with incremental decoding.
import uuid
from typing import Dict, Optional

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def with_incremental_state(cls):
    """Class decorator: gives each instance its own key in the shared incremental_state dict."""
    orig = cls.__init__

    def __init__(self, *a, **kw):
        orig(self, *a, **kw)
        self._incremental_state_id = str(uuid.uuid4())

    cls.__init__ = __init__
    cls.get_incremental_state = lambda self, st: st.get(self._incremental_state_id)
    cls.set_incremental_state = lambda self, st, value: st.__setitem__(self._incremental_state_id, value)
    return cls


@with_incremental_state
class MultiheadAttention(nn.Module):
    """Input shape: Time x Batch x Channel.

    key_padding_mask: (batch, src_len) bool, True for pad symbols, which are left out.
    attn_mask: (tgt_len, src_len) additive float mask.
    """

    def __init__(self, embed_dim, num_heads, kdim=None, dropout=0.0, bias=True, self_attention=False):
        super().__init__()
        self.embed_dim, self.num_heads = embed_dim, num_heads
        self.head_dim = embed_dim // num_heads
        assert self.head_dim * num_heads == embed_dim, "embed_dim must be divisible by num_heads"
        self.scaling = self.head_dim**-0.5
        self.dropout = dropout
        self.self_attention = self_attention
        self.k_proj = nn.Linear(kdim or embed_dim, embed_dim, bias=bias)
        self.v_proj = nn.Linear(kdim or embed_dim, embed_dim, bias=bias)
        self.q_proj = nn.Linear(embed_dim, embed_dim, bias=bias)
        self.out_proj = nn.Linear(embed_dim, embed_dim, bias=bias)

    def _fold(self, t: Tensor) -> Tensor:
        """T x B x C -> (B * H) x T x D"""
        length, bsz, _ = t.shape
        return t.contiguous().view(length, bsz * self.num_heads, self.head_dim).transpose(0, 1)

    def forward(self, query, key, value, key_padding_mask: Optional[Tensor] = None, incremental_state: Optional[Dict] = None,
                need_weights: bool = True, attn_mask: Optional[Tensor] = None):
        tgt_len, bsz, embed_dim = query.size()
        q = self._fold(self.q_proj(query) * self.scaling)
        k = self._fold(self.k_proj(key))
        v = self._fold(self.v_proj(value))

        if incremental_state is not None and self.self_attention:
            saved = self.get_incremental_state(incremental_state)
            if saved is not None:
                k = torch.cat([saved["prev_key"], k], dim=1)
                v = torch.cat([saved["prev_value"], v], dim=1)
            self.set_incremental_state(incremental_state, {"prev_key": k, "prev_value": v})

        src_len = k.size(1)
        attn_weights = torch.bmm(q, k.transpose(1, 2))
        assert list(attn_weights.size()) == [bsz * self.num_heads, tgt_len, src_len]

        if attn_mask is not None:
            attn_weights = attn_weights + attn_mask.unsqueeze(0)

        if key_padding_mask is not None:
            pad = key_padding_mask.to(torch.bool).repeat(self.num_heads, 1)
            attn_weights = attn_weights.masked_fill(pad.unsqueeze(1), float("-inf"))

        attn_weights_float = F.softmax(attn_weights, dim=-1, dtype=torch.float32)
        attn_probs = F.dropout(attn_weights_float.type_as(attn_weights), self.dropout, training=self.training)
        attn = torch.bmm(attn_probs, v)
        attn = attn.transpose(0, 1).contiguous().view(tgt_len, bsz, embed_dim)
        attn = self.out_proj(attn)

        weights = None
        if need_weights:
            weights = attn_weights_float.view(bsz, self.num_heads, tgt_len, src_len).transpose(1, 0).mean(dim=0)
        return attn, weights


class TransformerEncoderLayer(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.self_attn = MultiheadAttention(args.encoder_embed_dim, args.encoder_attention_heads, self_attention=True)
        self.self_attn_layer_norm = nn.LayerNorm(args.encoder_embed_dim)
        self.fc1 = nn.Linear(args.encoder_embed_dim, args.encoder_ffn_embed_dim)
        self.fc2 = nn.Linear(args.encoder_ffn_embed_dim, args.encoder_embed_dim)
        self.final_layer_norm = nn.LayerNorm(args.encoder_embed_dim)

    def forward(self, x, encoder_padding_mask):
        y, _ = self.self_attn(x, x, x, key_padding_mask=encoder_padding_mask, need_weights=False)
        x = self.self_attn_layer_norm(x + y)
        return self.final_layer_norm(x + self.fc2(F.relu(self.fc1(x))))
