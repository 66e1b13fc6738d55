"""Pooling of whole-slide tiles by learned seeds, on ragged bags (no padding at all)."""
import torch
from torch import nn


class RaggedPMA(nn.Module):
    """Pooling by multi-head attention over bags of different size.

    tiles  (M, D)       all tiles of all slides, in any order
    slide  (M,) int64   the slide each tile belongs to, 0 .. n-1
    n      int          number of slides (some may have no tile)
    out    (n, S, D)    S seed vectors per slide

    For every slide, seed and head: softmax(seed . key / sqrt(d)) over the tiles of
    that slide, d = D / heads.  A slide without tiles pools to zeros, so its output is
    the bias of the last linear layer.
    """

    def __init__(self, D, heads, S):
        super().__init__()
        self.h, self.d, self.S = heads, D // heads, S
        self.seed = nn.Parameter(torch.randn(S, heads, D // heads))
        self.kv = nn.Linear(D, 2 * D)
        self.out = nn.Linear(D, D)

    def forward(self, tiles, slide, n):
        M = tiles.size(0)
        k, v = self.kv(tiles).view(M, 2, self.h, self.d).unbind(1)
        s = torch.einsum("shd,mhd->msh", self.seed, k) * self.d ** -0.5      # M, S, h
        idx = slide[:, None, None].expand_as(s)
        top = s.new_full((n, self.S, self.h), -torch.inf)
        top = top.scatter_reduce(0, idx, s.detach(), reduce="amax")
        e = torch.exp(s - top.gather(0, idx))
        z = s.new_zeros(n, self.S, self.h).scatter_add(0, idx, e)
        w = e / z.gather(0, idx)
        y = v.new_zeros(n, self.S, self.h, self.d)
        y = y.index_add(0, slide, w.unsqueeze(-1) * v.unsqueeze(1))
        return self.out(y.flatten(2))
