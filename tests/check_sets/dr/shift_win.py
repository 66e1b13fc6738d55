"""Shifted-window self-attention on a torus (periodic weather grids).

The grid is periodic in both directions (we use a doubly periodic test domain), so that, other
than in Swin, no mask is needed after the shift: pixels that meet at the border ARE
neighbours.

    x (B, H, W, C), H and W multiples of `win`; 0 <= shift < win
    out (B, H, W, C): out[b, y, x] is the result of the attention for the pixel (y, x)

With shift = s the windows start at the rows s, s + win, ... and at the columns s, s + win, ...
(modulo H, W). Within each window: plain multi-head attention, logits over sqrt(head dim).
No residual and no norm here, the caller has them.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


def partition(x, w):
    B, H, W, C = x.shape
    x = x.view(B, H // w, w, W // w, w, C)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, w * w, C)


def reverse(p, w, H, W):
    C = p.shape[-1]
    p = p.view(-1, H // w, W // w, w, w, C)
    return p.permute(0, 1, 3, 2, 4, 5).reshape(-1, H, W, C)


class TorusWindowAttention(nn.Module):
    def __init__(self, dim, heads, win=4, shift=0):
        super().__init__()
        self.heads, self.win, self.shift = heads, win, shift
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        B, H, W, C = x.shape
        s = self.shift
        if s > 0:
            x = torch.roll(x, shifts=(-s, -s), dims=(1, 2))
        p = partition(x, self.win)
        n, t, _ = p.shape
        q, k, v = self.qkv(p).view(n, t, 3, self.heads, C // self.heads).permute(2, 0, 3, 1, 4)
        o = F.scaled_dot_product_attention(q, k, v)
        o = self.proj(o.transpose(1, 2).reshape(n, t, C))
        o = reverse(o, self.win, H, W)
        if s > 0:
            o = torch.roll(o, shifts=(-s, -s), dims=(1, 2))
        return o
