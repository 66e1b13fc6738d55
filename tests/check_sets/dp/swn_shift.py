"""Shifted-window attention (Swin), functional form with the mask made once.

``region_mask(H, W, w, s)`` returns the float mask (nW, w*w, w*w) of the shifted
map: 0 where two pixels of a window come from the same part of the image and
-inf where the cyclic shift has brought strangers together.

``ShiftedWindows(C, heads, w, s)``
    x : (B, H, W, C) with H, W divisible by w, 0 < s < w
    pixels attend within their window and only to pixels of the same region;
    logits times (C/heads)**-0.5
returns (B, H, W, C), shifted back.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


def windows(x, w):
    B, H, W, C = x.shape
    x = x.view(B, H // w, w, W // w, w, C).transpose(2, 3)
    return x.reshape(B, -1, w * w, C)


def region_mask(H, W, w, s):
    img = torch.zeros(1, H, W, 1)
    cuts = (slice(0, -w), slice(-w, -s), slice(-s, None))
    n = 0
    for a in cuts:
        for b in cuts:
            img[:, a, b] = n
            n += 1
    r = windows(img, w)[0, :, :, 0]
    differ = r[:, :, None] != r[:, None, :]
    return torch.zeros(differ.shape).masked_fill(differ, float("-inf"))


class ShiftedWindows(nn.Module):
    def __init__(self, C, heads, w, s):
        super().__init__()
        self.heads, self.w, self.s = heads, w, s
        self.qkv = nn.Linear(C, 3 * C)
        self.proj = nn.Linear(C, C)

    def forward(self, x):
        B, H, W, C = x.shape
        w, s = self.w, self.s
        z = windows(torch.roll(x, (-s, -s), dims=(1, 2)), w)
        nW = z.size(1)
        z = self.qkv(z).view(B, nW, w * w, 3, self.heads, C // self.heads)
        q, k, v = z.permute(3, 0, 1, 4, 2, 5)
        m = region_mask(H, W, w, s).to(x.device)
        m = m.bool().view(1, nW, 1, w * w, w * w)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=m)
        y = self.proj(y.transpose(2, 3).reshape(B, nW, w * w, C))
        y = y.view(B, H // w, W // w, w, w, C).transpose(2, 3).reshape(B, H, W, C)
        return torch.roll(y, (s, s), dims=(1, 2))
