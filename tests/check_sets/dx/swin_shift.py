"""Swin shifted-window attention for the terrain splat classifier.

Ported from the Swin paper (Liu et al. 2021) because I only want the one piece and no timm
dependency in the tool chain. Think of it as a tile pass: the map is scrolled by `shift`
texels up and left (wrapping), cut into win x win tiles, every tile attends inside itself,
and the map is scrolled back.

Input and output: (N, rows, cols, C), rows and cols multiples of `win`.
Texels that only became tile mates because of the wrap-around must not see each other, as in
the paper. One learned bias per head and relative offset (dy, dx) is added to the scores,
which are scaled by 1/sqrt(C / heads).
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


def cut(t, w):
    """(N, R, K, C) -> (N * tiles, w*w, C), tiles in reading order"""
    n, r, k, c = t.shape
    t = t.view(n, r // w, w, k // w, w, c)
    return t.permute(0, 1, 3, 2, 4, 5).reshape(-1, w * w, c)


def glue(t, w, r, k):
    """the inverse of cut"""
    c = t.shape[-1]
    t = t.view(-1, r // w, k // w, w, w, c)
    return t.permute(0, 1, 3, 2, 4, 5).reshape(-1, r, k, c)


class ShiftedTiles(nn.Module):
    def __init__(self, dim, heads, win, shift=0):
        super().__init__()
        assert 0 <= shift < win and dim % heads == 0
        self.h, self.w, self.s = heads, win, shift
        self.to_qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)
        self.table = nn.Parameter(torch.randn((2 * win - 1) ** 2, heads) * 0.02)
        ys, xs = torch.meshgrid(torch.arange(win), torch.arange(win), indexing="ij")
        p = torch.stack([ys.flatten(), xs.flatten()])
        d = p[:, :, None] - p[:, None, :] + win - 1
        self.register_buffer("which", d[0] * (2 * win - 1) + d[1], persistent=False)

    def region_ids(self, r, k, device):
        # paint the scrolled map: 3 x 3 areas that were contiguous before the scroll
        def bands(n):
            b = torch.zeros(n, dtype=torch.long, device=device)
            b[n - self.w:] = 1
            b[n - self.s:] = 2
            return b
        return bands(r)[:, None] * 3 + bands(k)[None, :]

    def forward(self, grid):
        n, r, k, c = grid.shape
        t = grid
        if self.s:
            t = torch.roll(t, (-self.s, -self.s), dims=(1, 2))
        t = cut(t, self.w)
        tiles = t.shape[0] // n
        q, key, v = self.to_qkv(t).view(t.shape[0], t.shape[1], 3, self.h, -1).permute(2, 0, 3, 1, 4)
        bias = self.table[self.which].permute(2, 0, 1)[None]
        if self.s:
            ids = cut(self.region_ids(r, k, grid.device)[None, :, :, None], self.w)[..., 0]
            apart = ids[:, :, None] != ids[:, None, :]
            wall = torch.zeros(apart.shape, dtype=bias.dtype, device=grid.device)
            wall = wall.masked_fill(apart, float("-inf"))
            bias = bias + wall.repeat(n, 1, 1)[:, None]
        y = F.scaled_dot_product_attention(q, key, v, attn_mask=bias.expand(n * tiles, -1, -1, -1))
        y = self.out(y.transpose(1, 2).reshape(t.shape))
        y = glue(y, self.w, r, k)
        return torch.roll(y, (self.s, self.s), dims=(1, 2)) if self.s else y
