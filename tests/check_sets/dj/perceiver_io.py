"""Perceiver IO (Jaegle et al., 2021): encode, process, decode.

Every arrow is the same QKV module: pre-norm, `heads` heads whose channels are the
consecutive slices of the projection, softmax(q k^T / sqrt(d_head)), output projection,
residual on the query, MLP.
"""
import torch
from torch import nn


class QKV(nn.Module):
    """forward(x, src): x (B, N, D) queries, src (B, M, D_src) -> (B, N, D). The source has
    no padding; N and M differ in general."""

    def __init__(self, D, D_src, heads=4):
        super().__init__()
        self.heads, self.d = heads, D // heads
        self.scale = self.d ** -0.5
        self.nx, self.ns = nn.LayerNorm(D), nn.LayerNorm(D_src)
        self.q = nn.Linear(D, D)
        self.k = nn.Linear(D_src, D)
        self.v = nn.Linear(D_src, D)
        self.proj = nn.Linear(D, D)
        self.mlp = nn.Sequential(nn.LayerNorm(D), nn.Linear(D, D), nn.GELU(), nn.Linear(D, D))

    def split(self, t):
        return t.reshape(t.size(0), self.heads, t.size(1), self.d)

    def forward(self, x, src):
        y, s = self.nx(x), self.ns(src)
        q, k, v = self.split(self.q(y)), self.split(self.k(s)), self.split(self.v(s))
        w = torch.einsum("bhnd,bhmd->bhnm", q, k) / self.scale
        w = w.softmax(dim=-1)
        o = torch.einsum("bhnm,bhmd->bnhd", w, v)
        x = x + self.proj(o.flatten(2))
        return x + self.mlp(x)


class PerceiverIO(nn.Module):
    """inputs (B, M, C), output queries (B, O, D) -> (B, O, D)."""

    def __init__(self, C, D=32, latents=8, depth=2, heads=4):
        super().__init__()
        self.z = nn.Parameter(torch.randn(latents, D) * 0.5)
        self.encode = QKV(D, C, heads)
        self.process = nn.ModuleList(QKV(D, D, heads) for _ in range(depth))
        self.decode = QKV(D, D, heads)

    def forward(self, inputs, queries):
        z = self.z.expand(inputs.size(0), -1, -1)
        z = self.encode(z, inputs)
        for block in self.process:
            z = block(z, z)
        return self.decode(queries, z)
