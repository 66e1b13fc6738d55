"""Encoder for document pages cut into tiles (each tile already embedded by a small CNN)."""
import torch
import torch.nn as nn


class TileAttention(nn.Module):
    """Multi-head self-attention over the tiles of one page.

    x: (batch, tiles, dim) -> (batch, tiles, dim)
    """

    def __init__(self, dim, heads=4, bias=True):
        super().__init__()
        assert dim % heads == 0
        self.heads = heads
        self.dh = dim // heads
        self.to_q = nn.Linear(dim, dim, bias=bias)
        self.to_k = nn.Linear(dim, dim, bias=bias)
        self.to_v = nn.Linear(dim, dim, bias=bias)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        b, n, c = x.shape
        q = self.to_q(x).view(b, n, self.heads, self.dh)
        k = self.to_k(x).view(b, n, self.heads, self.dh)
        v = self.to_v(x).view(b, n, self.heads, self.dh)

        sim = torch.einsum("bihd,bjhd->bijh", q, k) * self.dh ** -0.5
        sim = sim.softmax(dim=-1)
        out = torch.einsum("bijh,bjhd->bihd", sim, v)
        return self.proj(out.reshape(b, n, c))


class PageEncoder(nn.Module):
    def __init__(self, dim=64, depth=2, heads=4):
        super().__init__()
        self.blocks = nn.ModuleList(
            nn.ModuleList([nn.LayerNorm(dim), TileAttention(dim, heads),
                           nn.LayerNorm(dim), nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))])
            for _ in range(depth)
        )

    def forward(self, x):
        for n1, att, n2, mlp in self.blocks:
            x = x + att(n1(x))
            x = x + mlp(n2(x))
        return x.mean(1)
