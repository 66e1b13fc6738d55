"""Decoding with a ring buffer (sliding window) and rotary positions.

RingCell.step(x) takes one token per sequence, x (B, D), and returns (B, D).
The token at absolute position n reads the last ``window`` tokens, itself
included: positions n-window+1 .. n. Rotary embedding (half-split layout,
base 10000) turns q and k by their absolute positions. Keys are stored turned.
Call reset(B) before a new batch of sequences.
"""
import torch
from torch import nn


def rotate(t, pos, base=10000.0):
    """t (B, H, d), pos python int; pairs are (i, i + d/2)."""
    d = t.size(-1)
    inv = base ** (-torch.arange(0, d, 2, dtype=t.dtype, device=t.device) / d)
    ang = pos * inv
    a, b = t[..., : d // 2], t[..., d // 2:]
    return torch.cat([a * ang.cos() - b * ang.sin(), b * ang.cos() + a * ang.sin()], -1)


class RingCell(nn.Module):
    def __init__(self, D=16, heads=2, window=4):
        super().__init__()
        self.h, self.d, self.window = heads, D // heads, window
        self.qkv = nn.Linear(D, 3 * D, bias=False)
        self.o = nn.Linear(D, D, bias=False)
        self.reset(1)

    def reset(self, B):
        w = self.qkv.weight
        shape = (B, self.window, self.h, self.d)
        self.ring_k = w.new_zeros(shape)
        self.ring_v = w.new_zeros(shape)
        self.n = 0

    @torch.no_grad()
    def step(self, x):
        B, D = x.shape
        q, k, v = self.qkv(x).view(B, 3, self.h, self.d).unbind(1)
        q, k = rotate(q, self.n), rotate(k, self.n)
        slot = self.n % self.window
        self.ring_k[:, slot] = k
        self.ring_v[:, slot] = v
        self.n += 1
        # before the first turn of the ring only the written slots exist;
        # the order of the slots is of no importance to the softmax
        m = min(self.n, self.window)
        s = torch.einsum("bhd,bwhd->bhw", q, self.ring_k[:, :m]) * self.d ** -0.5
        y = torch.einsum("bhw,bwhd->bhd", s.softmax(-1), self.ring_v[:, :m])
        return self.o(y.reshape(B, D))

    def forward(self, xs):
        """xs (B, T, D) -> (B, T, D), token after token from an empty ring."""
        self.reset(xs.size(0))
        return torch.stack([self.step(x) for x in xs.unbind(1)], dim=1)
