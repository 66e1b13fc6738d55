"""Bring fused attention checkpoints of the old training code into our module.

The old code packs the projection head by head: rows of ``attn.qkv.weight`` are
[head 0: q, k, v | head 1: q, k, v | ...], i.e. (n_head, 3, head_dim) seen as a block.
"""
import re
from typing import Dict

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention, linear

RENAME = [
    (r"^transformer\.h\.(\d+)\.", r"blocks.\1."),
    (r"\.ln_1\.", ".norm_att."),
    (r"\.ln_2\.", ".norm_mlp."),
    (r"\.mlp\.c_fc\.", ".mlp.0."),
    (r"\.mlp\.c_proj\.", ".mlp.2."),
    (r"^transformer\.wte\.", "embed."),
    (r"^transformer\.ln_f\.", "norm."),
]


def convert(state: Dict[str, Tensor]) -> Dict[str, Tensor]:
    out = {}
    for name, t in state.items():
        for pat, sub in RENAME:
            name = re.sub(pat, sub, name)
        out[name] = t
    return out


class FusedSelfAttention(nn.Module):
    """qkv keeps the packing of the checkpoint. x: (batch, time, width); causal.

    doc_ids: optional LongTensor (batch, time); tokens see only their own document.
    """

    def __init__(self, width, n_head):
        super().__init__()
        self.n_head = n_head
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)

    def forward(self, x, doc_ids=None):
        b, t, w = x.shape
        packed = self.qkv(x).view(b, t, 3, self.n_head, w // self.n_head)
        q, k, v = packed.permute(2, 0, 3, 1, 4)
        if doc_ids is None:
            y = scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            same = doc_ids[:, :, None] == doc_ids[:, None, :]
            y = scaled_dot_product_attention(q, k, v, attn_mask=same.tril()[:, None])
        return self.proj(y.transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self, width, n_head):
        super().__init__()
        self.norm_att, self.norm_mlp = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn = FusedSelfAttention(width, n_head)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(approximate="tanh"), nn.Linear(4 * width, width))

    def forward(self, x, doc_ids=None):
        x = x + self.attn(self.norm_att(x), doc_ids)
        return x + self.mlp(self.norm_mlp(x))


class PortedLM(nn.Module):
    def __init__(self, vocab, width, n_head, depth):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.blocks = nn.ModuleList(Block(width, n_head) for _ in range(depth))
        self.norm = nn.LayerNorm(width)

    @classmethod
    def from_old(cls, state, n_head):
        state = convert(state)
        vocab, width = state["embed.weight"].shape
        depth = 1 + max(int(m.group(1)) for m in (re.match(r"blocks\.(\d+)\.", k) for k in state) if m)
        model = cls(vocab, width, n_head, depth)
        model.load_state_dict(state)
        return model

    def forward(self, ids, doc_ids=None):
        x = self.embed(ids)
        for blk in self.blocks:
            x = blk(x, doc_ids)
        return linear(self.norm(x), self.embed.weight)
