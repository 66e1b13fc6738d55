"""Leaf disease classifier: one Swin stage (shifted windows)."""
import torch
import torch.nn as nn


def to_windows(x, w):
    b, h, wd, c = x.shape
    x = x.view(b, h // w, w, wd // w, w, c)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, w * w, c)


def from_windows(win, w, h, wd):
    c = win.shape[-1]
    x = win.view(-1, h // w, wd // w, w, w, c)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, h, wd, c)


class ShiftedWindowAttention(nn.Module):
    """Window attention on [B, H, W, C]; shift=0 gives the plain variant.

    After the cyclic shift some windows contain patches of opposite borders;
    those must not see each other, hence the region mask.  Relative position
    bias table as in the paper.
    """

    def __init__(self, dim, heads, size, window=4, shift=0):
        super().__init__()
        self.h, self.w, self.shift = heads, window, shift
        self.scale = (dim // heads) ** -0.5
        self.qkv = nn.Linear(dim, dim * 3)
        self.proj = nn.Linear(dim, dim)
        self.table = nn.Parameter(torch.zeros((2 * window - 1) ** 2, heads))
        nn.init.trunc_normal_(self.table, std=0.5)

        g = torch.stack(torch.meshgrid(torch.arange(window), torch.arange(window), indexing="ij")).flatten(1)
        rel = (g[:, :, None] - g[:, None, :]) + window - 1
        self.register_buffer("index", rel[0] * (2 * window - 1) + rel[1], persistent=False)

        mask = None
        if shift > 0:
            region = torch.zeros(1, *size, 1)
            cuts = (slice(0, -window), slice(-window, -shift), slice(-shift, None))
            n = 0
            for a in cuts:
                for b in cuts:
                    region[:, a, b] = n
                    n += 1
            r = to_windows(region, window).squeeze(-1)
            mask = r[:, None, :] != r[:, :, None]
        self.register_buffer("foreign", mask, persistent=False)

    def forward(self, x):
        b, hh, ww, c = x.shape
        if self.shift:
            x = torch.roll(x, (-self.shift, -self.shift), dims=(1, 2))
        win = to_windows(x, self.w)
        n, l, _ = win.shape
        q, k, v = self.qkv(win).view(n, l, 3, self.h, c // self.h).permute(2, 0, 3, 1, 4)
        s = (q * self.scale) @ k.transpose(-2, -1)
        s = s + self.table[self.index].permute(2, 0, 1)
        if self.foreign is not None:
            nw = self.foreign.shape[0]
            s = s.view(b, nw, self.h, l, l).masked_fill(self.foreign[None, :, None], float("-inf"))
            s = s.view(n, self.h, l, l)
        y = (s.softmax(-1) @ v).transpose(1, 2).reshape(n, l, c)
        x = from_windows(self.proj(y), self.w, hh, ww)
        if self.shift:
            x = torch.roll(x, (self.shift, self.shift), dims=(1, 2))
        return x


class LeafNet(nn.Module):
    def __init__(self, classes=12, dim=32, img=32, patch=4):
        super().__init__()
        size = (img // patch, img // patch)
        self.stem = nn.Conv2d(3, dim, patch, patch)
        self.a = ShiftedWindowAttention(dim, 4, size)
        self.b = ShiftedWindowAttention(dim, 4, size, shift=2)
        self.n1, self.n2, self.n3 = nn.LayerNorm(dim), nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.fc = nn.Linear(dim, classes)

    def forward(self, img):
        x = self.stem(img).permute(0, 2, 3, 1)
        x = x + self.a(self.n1(x))
        x = x + self.b(self.n2(x))
        return self.fc(self.n3(x).mean((1, 2)))
