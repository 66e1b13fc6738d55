"""Shifted-window encoder for one turn of a rotor (vibration monitoring).

x    (B, L, C): L samples around one full turn, so sample L-1 is next to sample 0
->   (B, L, dim): row i of the output belongs to sample i of the input

Layers alternate.  Even layers: windows [0,w), [w,2w), ...  Odd layers: the windows are
displaced by w/2 around the circle, i.e. [w/2, 3w/2), ..., the last one closing over the
seam; because the signal is periodic no mask is needed there.  Samples read only the
samples of their own window (per head 1/sqrt(d), softmax over the window).
L is a multiple of the window w, w is even.
"""
import torch
from torch import nn
import torch.nn.functional as F


class WindowLayer(nn.Module):
    def __init__(self, dim, heads, window, shift):
        super().__init__()
        self.heads, self.window, self.shift = heads, window, shift
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)
        self.ff = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def forward(self, x):
        B, L, D = x.shape
        y = self.n1(x)
        if self.shift:
            y = torch.roll(y, -self.shift, dims=1)
        y = y.reshape(B * L // self.window, self.window, D)
        q, k, v = self.qkv(y).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v)
        y = self.proj(y.transpose(1, 2).flatten(2)).reshape(B, L, D)
        if self.shift:
            y = torch.roll(y, -self.shift, dims=1)
        x = x + y
        return x + self.ff(self.n2(x))


class RotorEncoder(nn.Module):
    def __init__(self, channels, dim=48, heads=4, window=8, depth=4):
        super().__init__()
        self.inp = nn.Conv1d(channels, dim, 5, padding=2, padding_mode="circular")
        self.layers = nn.ModuleList(
            WindowLayer(dim, heads, window, shift=0 if i % 2 == 0 else window // 2)
            for i in range(depth)
        )

    def forward(self, x):
        x = self.inp(x.transpose(1, 2)).transpose(1, 2)
        for layer in self.layers:
            x = layer(x)
        return x
