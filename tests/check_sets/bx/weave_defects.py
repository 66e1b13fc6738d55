"""Woven-fabric defect maps: one (shifted) window block.

The map [B, H, W, C] is cut into `win` x `win` windows; cells attend inside
their window only, with a learned bias per head and relative offset.  With
shift > 0 the map is rolled first, and cells that come from opposite borders of
the fabric do not see one another.  H and W must be multiples of `win`.
"""
import torch
from torch import nn


def to_windows(x, w):
    b, h, wd, c = x.shape
    x = x.view(b, h // w, w, wd // w, w, c).permute(0, 1, 3, 2, 4, 5)
    return x.reshape(-1, w * w, c)


def from_windows(x, w, b, h, wd):
    x = x.view(b, h // w, wd // w, w, w, -1).permute(0, 1, 3, 2, 4, 5)
    return x.reshape(b, h, wd, -1)


class WeaveBlock(nn.Module):
    def __init__(self, dim=12, heads=3, win=4, shift=2):
        super().__init__()
        self.heads, self.win, self.shift = heads, win, shift
        self.norm = nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)
        self.rel = nn.Parameter(torch.randn((2 * win - 1) ** 2, heads) * 0.3)
        yx = torch.stack(torch.meshgrid(torch.arange(win), torch.arange(win), indexing="ij")).flatten(1)
        diff = yx[:, :, None] - yx[:, None, :] + win - 1
        self.register_buffer("rel_index", diff[0] * (2 * win - 1) + diff[1], persistent=False)

    def region_mask(self, h, w, device):
        """[windows, n, n], True where two cells lie in the same piece of cloth"""
        s, win = self.shift, self.win
        zone_y = torch.zeros(h, dtype=torch.long, device=device)
        zone_x = torch.zeros(w, dtype=torch.long, device=device)
        if s:
            zone_y[-s:] = 1
            zone_x[-s:] = 1
        zone = zone_y[:, None] * 2 + zone_x[None, :]
        z = to_windows(zone[None, :, :, None], win).squeeze(-1)
        return z[:, :, None] == z[:, None, :]

    def forward(self, x):
        b, h, w, c = x.shape
        y = self.norm(x)
        if self.shift:
            y = torch.roll(y, (-self.shift, -self.shift), dims=(1, 2))
        y = to_windows(y, self.win)
        nw, n = y.shape[0] // b, y.shape[1]
        q, k, v = self.qkv(y).view(-1, n, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        s = q @ k.transpose(-1, -2) * (c // self.heads) ** -0.5
        s = s + self.rel[self.rel_index].permute(2, 0, 1)
        same = self.region_mask(h, w, x.device)
        s = s.view(b, nw, self.heads, n, n).masked_fill(~same[None, :, None], -torch.inf)
        y = (s.softmax(-1).view(b * nw, self.heads, n, n) @ v).transpose(1, 2).reshape(-1, n, c)
        y = from_windows(self.proj(y), self.win, b, h, w)
        if self.shift:
            y = torch.roll(y, (self.shift, self.shift), dims=(1, 2))
        return x + y
