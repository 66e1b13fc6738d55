# Leaf disease segmentation - windowed attention backbone
# (own rewrite; no timm on the cluster)
import torch
import torch.nn as nn


def to_windows(img, w):
    """B,H,W,C -> B*nW, w*w, C"""
    B, H, W, C = img.shape
    img = img.view(B, H // w, w, W // w, w, C)
    return img.permute(0, 1, 3, 2, 4, 5).reshape(-1, w * w, C)


def from_windows(win, w, H, W):
    B = win.shape[0] // ((H // w) * (W // w))
    img = win.view(B, H // w, W // w, w, w, -1)
    return img.permute(0, 1, 3, 2, 4, 5).reshape(B, H, W, -1)


def relative_index(w):
    yy, xx = torch.meshgrid(torch.arange(w), torch.arange(w), indexing="ij")
    p = torch.stack([yy.flatten(), xx.flatten()], 1)
    rel = p[:, None] - p[None] + (w - 1)
    return rel[..., 0] * (2 * w - 1) + rel[..., 1]


def region_labels(H, W, w, shift):
    """Label of the region each pixel of the rolled map comes from."""
    lab = torch.zeros(1, H, W, 1)
    n = 0
    for hs in (slice(0, -w), slice(-w, -shift), slice(-shift, None)):
        for ws in (slice(0, -w), slice(-w, -shift), slice(-shift, None)):
            lab[:, hs, ws] = n
            n += 1
    return lab


class ShiftedWindowMix(nn.Module):
    """Image map (B, H, W, C); pixels of a window attend to pixels of the same
    window that were neighbours before the cyclic shift."""

    def __init__(self, ch, heads, w=4, shift=0):
        super().__init__()
        self.heads, self.w, self.shift = heads, w, shift
        self.scale = (ch // heads) ** -0.5
        self.qkv = nn.Linear(ch, 3 * ch)
        self.proj = nn.Linear(ch, ch)
        self.table = nn.Parameter(torch.randn((2 * w - 1) ** 2, heads) * 0.02)
        self.register_buffer("idx", relative_index(w))

    def forward(self, img):
        B, H, W, C = img.shape
        w, s = self.w, self.shift
        if s:
            img = torch.roll(img, (-s, -s), (1, 2))
        x = to_windows(img, w)
        N, T, _ = x.shape
        q, k, v = self.qkv(x).reshape(N, T, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        a = (q * self.scale) @ k.mT
        a = a + self.table[self.idx].permute(2, 0, 1)
        if s:
            lab = to_windows(region_labels(H, W, w, s).to(img.device), w)[..., 0]
            other = lab[:, :, None] != lab[:, None, :]
            a = a.view(B, -1, self.heads, T, T).masked_fill(other[None, :, None], float("-inf"))
            a = a.view(N, self.heads, T, T)
        y = (a.softmax(-1) @ v).transpose(1, 2).reshape(N, T, C)
        y = from_windows(self.proj(y), w, H, W)
        return torch.roll(y, (s, s), (1, 2)) if s else y
