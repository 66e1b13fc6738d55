"""Shifted-window attention (Swin) on channels-last feature maps.

SWMSA(dim, heads, win, shift): x (B, H, W, dim) -> (B, H, W, dim), H and W multiples of win.

The map is rolled by -shift, cut into win x win windows, attended, and rolled back. After the
roll a window at the border can hold pixels of up to four regions that are no neighbours in
the image; a pixel attends only to pixels of ITS OWN region in its window. Scores are
q.k / sqrt(dim of one head). Relative position bias is left out to keep the file short.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


def to_windows(x, w):
    B, H, W, C = x.shape
    x = x.view(B, H // w, w, W // w, w, C).permute(0, 1, 3, 2, 4, 5)
    return x.reshape(B * (H // w) * (W // w), w * w, C)


def from_windows(x, w, B, H, W):
    x = x.view(B, H // w, W // w, w, w, -1).permute(0, 1, 3, 2, 4, 5)
    return x.reshape(B, H, W, -1)


def region_mask(H, W, w, s, device=None):
    """(nW, w*w, w*w) float mask to be added to the scores."""
    ids = torch.zeros(1, H, W, 1, device=device)
    n = 0
    for a in (slice(0, -w), slice(-w, -s), slice(-s, None)):
        for b in (slice(0, -w), slice(-w, -s), slice(-s, None)):
            ids[:, a, b] = n
            n += 1
    ids = to_windows(ids, w).squeeze(-1)
    same = ids[:, :, None] == ids[:, None, :]
    return torch.zeros(same.shape, device=device).masked_fill(same, -1e4)


class SWMSA(nn.Module):
    def __init__(self, dim, heads, win=4, shift=2):
        super().__init__()
        self.dim, self.heads, self.win, self.shift = dim, heads, win, shift
        self.scale = dim ** -0.5
        self.qkv = nn.Linear(dim, dim * 3)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        B, H, W, C = x.shape
        w, s = self.win, self.shift
        if s:
            x = torch.roll(x, (-s, -s), dims=(1, 2))
        t = to_windows(x, w)
        n = t.size(0)
        q, k, v = self.qkv(t).view(n, w * w, 3, self.heads, C // self.heads).permute(2, 0, 3, 1, 4)
        a = (q * self.scale) @ k.transpose(-2, -1)
        if s:
            m = region_mask(H, W, w, s, x.device)
            a = a.view(B, -1, self.heads, w * w, w * w) + m[None, :, None]
            a = a.view(n, self.heads, w * w, w * w)
        t = (F.softmax(a, dim=-1) @ v).transpose(1, 2).reshape(n, w * w, C)
        x = from_windows(self.proj(t), w, B, H, W)
        if s:
            x = torch.roll(x, (s, s), dims=(1, 2))
        return x
