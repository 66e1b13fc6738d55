import torch
from torch import nn


def mha(x, mem, wq, wk, wv, wo, h, mask=None):
    b, t, c = x.shape
    q = wq(x).reshape(b, t, h, c // h).swapaxes(1, 2)
    k = wk(mem).reshape(b, mem.shape[1], h, c // h).swapaxes(1, 2)
    v = wv(mem).reshape(b, mem.shape[1], h, c // h).swapaxes(1, 2)
    a = q @ k.swapaxes(-1, -2) / (c // h) ** 0.5
    if mask is not None:
        a = a + mask
    a = a.softmax(-1)
    return wo((a @ v).swapaxes(1, 2).reshape(b, t, c))


class TransformerDecoderLayer(nn.Module):
    """tgt (B, T, C) attends causally to itself, then to memory (B, S, C), then a feed-forward net.  Post-norm."""

    def __init__(self, c, h, ff=64):
        super().__init__()
        self.h = h
        self.self_proj = nn.ModuleList([nn.Linear(c, c) for _ in range(4)])
        self.cross_proj = nn.ModuleList([nn.Linear(c, c) for _ in range(4)])
        self.norms = nn.ModuleList([nn.LayerNorm(c) for _ in range(3)])
        self.ff = nn.Sequential(nn.Linear(c, ff), nn.ReLU(), nn.Linear(ff, c))

    def forward(self, tgt, memory):
        t = tgt.shape[1]
        causal = torch.zeros(t, t, dtype=tgt.dtype).masked_fill(torch.ones(t, t).triu(1) > 0, float("-inf"))
        x = self.norms[0](tgt + mha(tgt, tgt, *self.self_proj, self.h, causal))
        x = self.norms[1](x + mha(x, memory, *self.cross_proj, self.h))
        return self.norms[2](x + self.ff(x))
