"""Multimodal rotary attention (M-RoPE): three position axes, time / height / width.

Channels of a head are turned in half-split pairs (i, i + d/2), pair i by the angle
pos * base**(-2i/d).  The d/2 pairs are shared out among the axes: the first
sections[0] pairs use the temporal position, the next sections[1] the row, the last
sections[2] the column.  For plain text the three positions are equal and M-RoPE is
ordinary RoPE, so scores depend only on position differences.

x     (B, T, D)
pos   (3, B, T) integer positions (t, h, w)
Causal over T.
"""
import torch
from torch import nn


def rotate_half(x):
    a, b = x.chunk(2, dim=-1)
    return torch.cat((-b, a), dim=-1)


def mrope_tables(pos, d, sections, base=1e6):
    """-> cos, sin (B, 1, T, d)"""
    assert sum(sections) == d // 2
    inv = base ** (-torch.arange(0, d, 2, dtype=torch.float32) / d)
    ang = pos[..., None].float() * inv                        # (3, B, T, d/2)
    parts = ang.split(sections, dim=-1)
    ang = torch.cat([p[axis] for axis, p in enumerate(parts)], dim=-1)
    ang = ang.repeat_interleave(2, dim=-1).unsqueeze(1)
    return ang.cos(), ang.sin()


class MRopeAttention(nn.Module):
    def __init__(self, D, heads, sections=(2, 3, 3)):
        super().__init__()
        self.heads, self.d = heads, D // heads
        self.sections = list(sections)
        self.q, self.k, self.v = nn.Linear(D, D), nn.Linear(D, D), nn.Linear(D, D)
        self.o = nn.Linear(D, D, bias=False)

    def forward(self, x, pos):
        B, T, D = x.shape
        split = lambda t: t.view(B, T, self.heads, self.d).transpose(1, 2)
        q, k, v = split(self.q(x)), split(self.k(x)), split(self.v(x))
        cos, sin = mrope_tables(pos, self.d, self.sections)
        q = q * cos + rotate_half(q) * sin
        k = k * cos + rotate_half(k) * sin
        att = torch.einsum("bhid,bhjd->bhij", q, k) * self.d ** -0.5
        future = torch.triu(torch.ones(T, T, dtype=torch.bool, device=x.device), 1)
        att = att.masked_fill(future, float("-inf")).softmax(dim=-1)
        y = torch.einsum("bhij,bhjd->bhid", att, v)
        return self.o(y.transpose(1, 2).reshape(B, T, D))
