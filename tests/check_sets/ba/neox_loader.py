"""Runs GPT-NeoX checkpoints with plain torch.

Checkpoint layout (EleutherAI): attention.query_key_value.weight has shape
[3*hidden, hidden]; its rows are grouped head by head, and inside one head
first q, then k, then v:  row = head * 3 * head_size + which * head_size + i.
Rotary is on the first rotary_ndims of each head, half-split.
"""
from __future__ import annotations
import torch
import torch.nn.functional as F
from torch import nn


class NeoXAttention(nn.Module):
    def __init__(self, hidden: int, heads: int, rotary_pct: float = 0.25, base: float = 10000.0):
        super().__init__()
        self.heads = heads
        self.head_size = hidden // heads
        self.rot = int(self.head_size * rotary_pct)
        self.query_key_value = nn.Linear(hidden, 3 * hidden)
        self.dense = nn.Linear(hidden, hidden)
        inv = base ** -(torch.arange(0, self.rot, 2).float() / self.rot)
        self.register_buffer("inv_freq", inv, persistent=False)

    @classmethod
    def from_checkpoint(cls, state: dict, layer: int, heads: int, **kw) -> "NeoXAttention":
        pre = f"gpt_neox.layers.{layer}.attention."
        picked = {k[len(pre):]: v for k, v in state.items()
                  if k.startswith(pre) and k.split(".")[-2] in ("query_key_value", "dense")}
        me = cls(picked["dense.weight"].shape[0], heads, **kw)
        me.load_state_dict(picked)
        return me

    def rotate(self, x: torch.Tensor) -> torch.Tensor:
        r, rest = x[..., : self.rot], x[..., self.rot:]
        ang = torch.arange(x.shape[2], device=x.device).float()[:, None] * self.inv_freq
        cos, sin = torch.cat([ang, ang], -1).cos(), torch.cat([ang, ang], -1).sin()
        a, b = r.chunk(2, dim=-1)
        r = r * cos + torch.cat([-b, a], dim=-1) * sin
        return torch.cat([r, rest], dim=-1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x [B, T, hidden], causal"""
        B, T, C = x.shape
        qkv = self.query_key_value(x)
        qkv = qkv.view(B, T, 3, self.heads, self.head_size)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        q, k = self.rotate(q), self.rotate(k)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.dense(y.transpose(1, 2).reshape(B, T, C))


class NeoXLayer(nn.Module):
    """Parallel residual."""

    def __init__(self, hidden, heads):
        super().__init__()
        self.attention = NeoXAttention(hidden, heads)
        self.n1, self.n2 = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.mlp = nn.Sequential(nn.Linear(hidden, 4 * hidden), nn.GELU(), nn.Linear(4 * hidden, hidden))

    def forward(self, x):
        return x + self.attention(self.n1(x)) + self.mlp(self.n2(x))
