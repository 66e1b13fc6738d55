"""Shifted-window backbone for rooftop / solar panel detection in aerial tiles.

Swin style (Liu et al. 2021). Feature maps are [B, H, W, C]; H and W are multiples of
the window size (tiles are 512 x 512, so no padding code here).
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


def to_windows(x, w):
    B, H, W, C = x.shape
    x = x.view(B, H // w, w, W // w, w, C)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, w * w, C)


def from_windows(x, w, H, W):
    C = x.shape[-1]
    x = x.view(-1, H // w, W // w, w, w, C)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, H, W, C)


def relative_index(w):
    c = torch.stack(torch.meshgrid(torch.arange(w), torch.arange(w), indexing="ij")).flatten(1)
    rel = (c[:, :, None] - c[:, None, :]).permute(1, 2, 0) + w - 1
    return rel[..., 0] * (2 * w - 1) + rel[..., 1]


class ShiftedWindowAttention(nn.Module):
    """Attention inside windows of size `window`; with `shift` > 0 the window grid is
    displaced by `shift` pixels, pixels that come together only through the cyclic
    shift do not see each other. The output lies on the same pixels as the input.
    """

    def __init__(self, dim, heads, window=8, shift=0):
        super().__init__()
        self.heads, self.window, self.shift = heads, window, shift
        self.scale = (dim // heads) ** -0.5
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)
        self.bias_table = nn.Parameter(torch.zeros((2 * window - 1) ** 2, heads))
        nn.init.trunc_normal_(self.bias_table, std=0.02)
        self.register_buffer("index", relative_index(window), persistent=False)

    def shift_mask(self, H, W, device):
        """[n_windows, w*w, w*w] bool, True = may not see each other."""
        w, s = self.window, self.shift
        region = torch.zeros(1, H, W, 1, device=device)
        n = 0
        for rows in (slice(0, -w), slice(-w, -s), slice(-s, None)):
            for cols in (slice(0, -w), slice(-w, -s), slice(-s, None)):
                region[:, rows, cols] = n
                n += 1
        r = to_windows(region, w).squeeze(-1)
        return r[:, None, :] != r[:, :, None]

    def forward(self, x):
        B, H, W, C = x.shape
        w, s = self.window, self.shift
        if s:
            x = torch.roll(x, shifts=(-s, -s), dims=(1, 2))
        win = to_windows(x, w)
        n = w * w
        q, k, v = self.qkv(win).view(-1, n, 3, self.heads, C // self.heads).permute(2, 0, 3, 1, 4)

        att = (q * self.scale) @ k.transpose(-2, -1)
        att = att + self.bias_table[self.index.view(-1)].view(n, n, self.heads).permute(2, 0, 1)
        if s:
            hide = self.shift_mask(H, W, x.device)
            att = att.view(B, -1, self.heads, n, n).masked_fill(hide[None, :, None], float("-inf"))
            att = att.view(-1, self.heads, n, n)
        att = att.softmax(-1)

        y = (att @ v).transpose(1, 2).reshape(-1, n, C)
        y = from_windows(self.proj(y), w, H, W)
        if s:
            y = torch.roll(y, shifts=(-s, -s), dims=(1, 2))
        return y


class SwinBlock(nn.Module):
    def __init__(self, dim, heads, window, shift):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.att = ShiftedWindowAttention(dim, heads, window, shift)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x):
        x = x + self.att(self.n1(x))
        return x + self.mlp(self.n2(x))


class Merge(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(4 * dim)
        self.red = nn.Linear(4 * dim, 2 * dim, bias=False)

    def forward(self, x):
        parts = [x[:, i::2, j::2] for j in (0, 1) for i in (0, 1)]
        return self.red(self.norm(torch.cat(parts, -1)))


class RooftopNet(nn.Module):
    def __init__(self, dim=48, depths=(2, 2), heads=(3, 6), window=8):
        super().__init__()
        self.patch = nn.Conv2d(3, dim, 4, 4)
        stages = []
        for i, (d, h) in enumerate(zip(depths, heads)):
            c = dim * 2 ** i
            if i:
                stages.append(Merge(c // 2))
            stages += [SwinBlock(c, h, window, 0 if j % 2 == 0 else window // 2) for j in range(d)]
        self.stages = nn.Sequential(*stages)
        self.heat = nn.Conv2d(dim * 2 ** (len(depths) - 1), 1, 1)

    def forward(self, img):
        x = self.patch(img).permute(0, 2, 3, 1)
        x = self.stages(x).permute(0, 3, 1, 2)
        return F.interpolate(self.heat(x), size=img.shape[-2:], mode="bilinear", align_corners=False)
