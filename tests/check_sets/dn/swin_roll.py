"""Shifted window block (Liu et al. 2021, Swin Transformer), channels last.

ShiftedWindowBlock(dim, heads, window, shift)
    forward(x)   x (B, H, W, dim), H and W multiples of window -> same shape

For shift > 0 the map is rolled by `shift` pixels up and to the left, cut into
windows, each window attends to itself, and the map is put together and rolled
back, so that the output at a pixel belongs to the input at the same pixel.
Pixels that meet in a window only because of the roll do not read each other.
Scores: q.k / sqrt(dim / heads) + learned bias by relative position.
    x = x + attention(norm1(x));  x = x + mlp(norm2(x))
"""
import torch
from torch import nn


def to_windows(x, w):
    """(B, H, W, C) -> (B * windows, w*w, C)"""
    B, H, W, C = x.shape
    x = x.view(B, H // w, w, W // w, w, C)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, w * w, C)


def from_windows(t, w, H, W):
    C = t.size(-1)
    t = t.view(-1, H // w, W // w, w, w, C)
    return t.permute(0, 1, 3, 2, 4, 5).reshape(-1, H, W, C)


def region_mask(H, W, w, s):
    """(windows, w*w, w*w) bool, True = the two pixels were neighbours before the roll"""
    part = lambda n: torch.cat([torch.zeros(n - w), torch.ones(w - s), torch.full((s,), 2.0)])
    label = part(H)[:, None] * 3 + part(W)[None, :]
    label = to_windows(label[None, :, :, None], w).squeeze(-1)
    return label.unsqueeze(1) == label.unsqueeze(2)


class ShiftedWindowBlock(nn.Module):
    def __init__(self, dim, heads, window=4, shift=0, mlp=4):
        super().__init__()
        assert 0 <= shift < window
        self.heads, self.w, self.shift = heads, window, shift
        self.scale = (dim // heads) ** -0.5
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, mlp * dim), nn.GELU(), nn.Linear(mlp * dim, dim))
        self.table = nn.Parameter(torch.zeros((2 * window - 1) ** 2, heads))
        yx = torch.stack(torch.meshgrid(torch.arange(window), torch.arange(window), indexing="ij"))
        rel = (yx.flatten(1)[:, :, None] - yx.flatten(1)[:, None, :]) + window - 1
        self.register_buffer("index", rel[0] * (2 * window - 1) + rel[1], persistent=False)

    def attend(self, t, mask):
        N, L, C = t.shape
        q, k, v = self.qkv(t).view(N, L, 3, self.heads, C // self.heads).permute(2, 0, 3, 1, 4)
        s = (q * self.scale) @ k.transpose(-2, -1) + self.table[self.index].permute(2, 0, 1)
        if mask is not None:
            s = s.view(-1, mask.size(0), self.heads, L, L)
            s = s.masked_fill(~mask[None, :, None], float("-inf")).view(N, self.heads, L, L)
        y = s.softmax(dim=-1) @ v
        return self.proj(y.transpose(1, 2).reshape(N, L, C))

    def forward(self, x):
        H, W = x.shape[1:3]
        y = self.norm1(x)
        mask = None
        if self.shift:
            y = torch.roll(y, (-self.shift, -self.shift), dims=(1, 2))
            mask = region_mask(H, W, self.w, self.shift).to(x.device)
        y = from_windows(self.attend(to_windows(y, self.w), mask), self.w, H, W)
        if self.shift:
            y = torch.roll(y, (-self.shift, -self.shift), dims=(1, 2))
        x = x + y
        return x + self.mlp(self.norm2(x))
