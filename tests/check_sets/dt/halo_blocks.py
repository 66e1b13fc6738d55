"""Blocked local attention with a halo (HaloNet, Vaswani et al. 2021), content part only.

The map is cut into non-overlapping blocks of b x b pixels. Each pixel of a block attends to
the (b + 2*halo)^2 pixels of the block plus its halo. Positions of the halo that lie outside
the image take no part in the softmax.

    x: (B, C, H, W), H and W divisible by b   ->   (B, C_out, H, W)
"""
import torch
from torch import nn
import torch.nn.functional as F


class HaloAttention(nn.Module):
    def __init__(self, c_in, c_out, block=4, halo=1, heads=2):
        super().__init__()
        self.block, self.halo, self.heads = block, halo, heads
        self.dh = c_out // heads
        self.q = nn.Conv2d(c_in, c_out, 1, bias=False)
        self.kv = nn.Conv2d(c_in, 2 * c_out, 1, bias=False)

    def _blocks(self, t):
        """(B, C, H, W) -> (B, heads, nblocks, b*b, dh)"""
        B, C, H, W = t.shape
        b = self.block
        t = t.view(B, self.heads, self.dh, H // b, b, W // b, b)
        return t.permute(0, 1, 3, 5, 4, 6, 2).reshape(B, self.heads, -1, b * b, self.dh)

    def _neighbourhoods(self, t):
        """(B, C, H, W) -> (B, C, nblocks, win*win), zero filled outside the image"""
        win = self.block + 2 * self.halo
        cols = F.unfold(t, win, stride=self.block, padding=self.halo)
        return cols.view(t.size(0), t.size(1), win * win, -1).transpose(2, 3)

    def forward(self, x):
        B, _, H, W = x.shape
        b = self.block
        q = self._blocks(self.q(x))
        kv = self._neighbourhoods(self.kv(x))
        k, v = kv.chunk(2, dim=1)
        k = k.unflatten(1, (self.heads, self.dh)).permute(0, 1, 3, 4, 2)
        v = v.unflatten(1, (self.heads, self.dh)).permute(0, 1, 3, 4, 2)
        inside = self._neighbourhoods(x.new_ones(1, 1, H, W))[0, 0] > 0      # (nblocks, win*win)
        sim = torch.einsum("bhnqd,bhnkd->bhnqk", q, k) * self.dh ** -0.5
        sim = sim.masked_fill(~inside[None, None, :, None, :], -torch.inf)
        out = torch.einsum("bhnqk,bhnkd->bhnqd", sim.softmax(-1), v)
        out = out.view(B, self.heads, H // b, W // b, b, b, self.dh)
        return out.permute(0, 1, 6, 2, 4, 3, 5).reshape(B, -1, H, W)
