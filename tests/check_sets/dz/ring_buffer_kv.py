"""Sliding-window decoding with a ring buffer of exactly `window` slots.

    layer = RingAttention(dim, heads, window);  state = layer.empty(B)
    y, state = layer(x, state)        x (B, dim): the next token of every sequence;  y (B, dim)

Token t attends to itself and the window-1 tokens before it (fewer at the beginning).  Slot t % window
holds token t, so the slots aren't in time order; the relative bias
rel[head, age], age = t - s in 0..window-1, is looked up by the age of each slot.
"""
import torch
from torch import nn


class RingAttention(nn.Module):
    def __init__(self, dim, heads, window):
        super().__init__()
        self.heads, self.d, self.window = heads, dim // heads, window
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)
        self.rel = nn.Parameter(torch.randn(heads, window) * 0.2)

    def empty(self, B):
        w = self.qkv.weight
        buf = w.new_zeros(2, B, self.heads, self.window, self.d)
        return buf, 0

    def forward(self, x, state):
        buf, t = state
        B = x.size(0)
        q, k, v = self.qkv(x).view(B, 3, self.heads, self.d).unbind(1)
        buf = buf.clone()
        buf[:, :, :, t % self.window] = torch.stack([k, v])
        K, V = buf

        slot = torch.arange(self.window, device=x.device)
        age = (t - slot) % self.window                      # how long ago the slot was written
        z = torch.einsum("bhd,bhwd->bhw", q, K) / self.d ** 0.5
        z = z + self.rel[:, age]
        z = z.masked_fill(age > t, float("-inf"))           # not written yet
        y = torch.einsum("bhw,bhwd->bhd", z.softmax(-1), V)
        return self.out(y.reshape(B, -1)), (buf, t + 1)
