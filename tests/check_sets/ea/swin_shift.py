"""Swin Transformer: (shifted) window attention, without the relative position bias.

x: (B, H, W, C), H and W multiples of `window`.  Returns (B, H, W, C), the residual included:
x + unshift(window_attention(shift(norm(x)))) - each output pixel belongs to the input pixel of the
same place.

With shift > 0 the picture is rolled by (-shift, -shift) before it is cut into windows; pixels which
are neighbours in a window only because of the rolling do not see each other.
"""
import torch
import torch.nn as nn


def window_partition(x, w):
    B, H, W, C = x.shape
    x = x.view(B, H // w, w, W // w, w, C)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, w * w, C)


def window_reverse(win, w, H, W):
    B = win.shape[0] // ((H // w) * (W // w))
    x = win.view(B, H // w, W // w, w, w, -1)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(B, H, W, -1)


def shift_mask(H, W, w, s):
    """(number of windows, w*w, w*w) bool, True = may see"""
    region = torch.zeros(1, H, W, 1)
    cnt = 0
    for hs in (slice(0, -w), slice(-w, -s), slice(-s, None)):
        for ws in (slice(0, -w), slice(-w, -s), slice(-s, None)):
            region[:, hs, ws, :] = cnt
            cnt += 1
    r = window_partition(region, w).squeeze(-1)
    return r[:, :, None] == r[:, None, :]


class ShiftedWindowAttention(nn.Module):
    def __init__(self, dim, heads, window, shift=0):
        super().__init__()
        self.heads, self.w, self.s = heads, window, shift
        self.norm = nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        B, H, W, C = x.shape
        y = self.norm(x)
        if self.s:
            y = torch.roll(y, shifts=(-self.s, -self.s), dims=(1, 2))
        win = window_partition(y, self.w)                                     # B*nW, N, C
        Bn, N, _ = win.shape
        q, k, v = self.qkv(win).view(Bn, N, 3, self.heads, C // self.heads).permute(2, 0, 3, 1, 4)
        att = (q * (C // self.heads) ** -0.5) @ k.transpose(-2, -1)
        if self.s:
            ok = shift_mask(H, W, self.w, self.s).to(x.device)                # nW, N, N
            ok = ok.repeat(B, 1, 1).unsqueeze(1)
            att = att.masked_fill(~ok, float('-inf'))
        out = (att.softmax(-1) @ v).transpose(1, 2).reshape(Bn, N, C)
        y = window_reverse(self.proj(out), self.w, H, W)
        if self.s:
            y = torch.roll(y, shifts=(-self.s, -self.s), dims=(1, 2))
        return x + y
