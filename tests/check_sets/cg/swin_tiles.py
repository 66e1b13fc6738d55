"""Shifted-window attention on satellite tiles.

Feature maps are [B, H, W, C] with H and W multiples of ``window``.  With
``shift > 0`` the map is rolled by (-shift, -shift), attention runs inside the
windows, pixels that were not neighbours before the roll do not see each other, and
the map is rolled back.  Every head adds a learned bias indexed by the offset
(row_i - row_j, col_i - col_j).
"""
import torch
import torch.nn as nn


def to_windows(x, w):
    b, hh, ww, c = x.shape
    x = x.view(b, hh // w, w, ww // w, w, c).permute(0, 1, 3, 2, 4, 5)
    return x.reshape(-1, w * w, c)


def from_windows(x, w, hh, ww):
    c = x.shape[-1]
    x = x.view(-1, hh // w, ww // w, w, w, c).permute(0, 1, 3, 2, 4, 5)
    return x.reshape(-1, hh, ww, c)


class ShiftedWindowAttention(nn.Module):
    def __init__(self, dim=24, heads=3, window=4, shift=2):
        super().__init__()
        assert 0 <= shift < window
        self.heads, self.window, self.shift = heads, window, shift
        self.norm = nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)
        self.bias = nn.Parameter(torch.zeros((2 * window - 1) ** 2, heads))
        nn.init.trunc_normal_(self.bias, std=0.5)
        r = torch.arange(window)
        grid = torch.stack(torch.meshgrid(r, r, indexing="ij")).flatten(1)
        off = grid[:, :, None] - grid[:, None, :] + window - 1
        self.register_buffer("index", off[0] * (2 * window - 1) + off[1])

    def _regions(self, hh, ww, device):
        """[windows, w*w, w*w], true where two pixels belong to the same region."""
        def band(n):
            t = torch.zeros(n, dtype=torch.long, device=device)
            t[n - self.window:] = 1
            t[n - self.shift:] = 2
            return t
        label = band(hh)[:, None] * 3 + band(ww)[None, :]
        label = to_windows(label[None, :, :, None], self.window).squeeze(-1)
        return label[:, :, None] == label[:, None, :]

    def forward(self, x):
        b, hh, ww, c = x.shape
        y = self.norm(x)
        if self.shift:
            y = torch.roll(y, (-self.shift, -self.shift), dims=(1, 2))
        y = to_windows(y, self.window)
        n = y.shape[1]
        q, k, v = self.qkv(y).reshape(-1, n, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        s = (q * (c // self.heads) ** -0.5) @ k.transpose(-2, -1)
        s = s + self.bias[self.index].permute(2, 0, 1)
        if self.shift:
            same = self._regions(hh, ww, x.device)
            s = s.view(b, -1, self.heads, n, n)
            s = s.masked_fill(~same[None, :, None], float("-inf")).flatten(0, 1)
        y = (s.softmax(-1) @ v).transpose(1, 2).reshape(-1, n, c)
        y = from_windows(self.proj(y), self.window, hh, ww)
        if self.shift:
            y = torch.roll(y, (self.shift, self.shift), dims=(1, 2))
        return x + y
