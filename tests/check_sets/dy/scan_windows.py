"""Scanned invoices: self-attention in shifted windows (Swin), channels last.

ShiftedWindows(dim, heads, win, shift).forward(x) -> same shape
    x  (B, H, W, dim), H and W multiples of win; 0 <= shift < win
The page is rolled by -shift in both directions and cut into win x win windows; a pixel attends
to the pixels of its window that were neighbours before the roll, i.e. pixels that came
round the edge are a region of their own.  Afterwards the page is rolled back.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class ShiftedWindows(nn.Module):
    def __init__(self, dim, heads, win, shift):
        super().__init__()
        self.heads, self.win, self.shift = heads, win, shift
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)

    def cut(self, t):
        """(B, H, W, C) -> (B, windows, win*win, C)"""
        B, H, W, C = t.shape
        w = self.win
        return t.view(B, H // w, w, W // w, w, C).transpose(2, 3).reshape(B, -1, w * w, C)

    def glue(self, t, H, W):
        B, _, _, C = t.shape
        w = self.win
        return t.view(B, H // w, W // w, w, w, C).transpose(2, 3).reshape(B, H, W, C)

    def regions(self, H, W, device):
        def strip(n):
            i = torch.arange(n, device=device)
            return (i >= n - self.win).long() + (i >= n - self.shift).long()
        return 3 * strip(H)[:, None] + strip(W)[None, :]

    def forward(self, x):
        B, H, W, C = x.shape
        s = self.shift
        t = self.cut(torch.roll(x, (-s, -s), dims=(1, 2)))
        n, L = t.shape[1:3]
        qkv = self.qkv(t).view(B, n, L, 3, self.heads, C // self.heads).permute(3, 0, 1, 4, 2, 5)
        keep = None
        if s > 0:
            r = self.cut(self.regions(H, W, x.device)[None, :, :, None])[0, :, :, 0]
            keep = (r[:, :, None] == r[:, None, :])[None, :, None]
        y = F.scaled_dot_product_attention(qkv[0], qkv[1], qkv[2], attn_mask=keep)
        y = self.glue(self.out(y.transpose(2, 3).reshape(B, n, L, C)), H, W)
        return torch.roll(y, (s, s), dims=(1, 2))
