"""Sliding-window decoding with a ring buffer.

RingAttention keeps the keys and values of the last `window` tokens only. step(x) takes the
next token of each sequence, x (B, D), and returns (B, D). A token attends to itself and to
the window-1 tokens before it (fewer at the start). Half-split rotary embedding with ABSOLUTE
positions: the key is rotated once, when it is written, and stays valid wherever it lies in
the ring, as scores depend on position differences alone.

reset(B) empties the ring.
"""
import torch
import torch.nn as nn


def rotate_half_split(x, pos, base=10000.0):
    """x (B, H, d), pos a python int"""
    half = x.size(-1) // 2
    inv = base ** (-torch.arange(half, dtype=torch.float64) / half)
    ang = (pos * inv).to(x.dtype)
    a, b = x[..., :half], x[..., half:]
    return torch.cat((a * ang.cos() - b * ang.sin(), b * ang.cos() + a * ang.sin()), -1)


class RingAttention(nn.Module):
    def __init__(self, D=32, heads=4, window=6):
        super().__init__()
        self.heads, self.d, self.window = heads, D // heads, window
        self.qkv = nn.Linear(D, 3 * D, bias=False)
        self.o = nn.Linear(D, D, bias=False)

    def reset(self, B):
        w = self.qkv.weight
        shape = (B, self.heads, self.window, self.d)
        self.k_ring, self.v_ring = w.new_zeros(shape), w.new_zeros(shape)
        self.seen = 0

    @torch.no_grad()
    def step(self, x):
        B = x.size(0)
        q, k, v = self.qkv(x).view(B, 3, self.heads, self.d).unbind(1)
        q, k = rotate_half_split(q, self.seen), rotate_half_split(k, self.seen)
        slot = self.seen % self.window
        self.k_ring[:, :, slot] = k
        self.v_ring[:, :, slot] = v
        self.seen += 1
        n = min(self.seen, self.window)      # slots 0..n-1 are filled, in whatever order
        s = torch.einsum("bhd,bhnd->bhn", q, self.k_ring[:, :, :n]) / self.d ** 0.5
        y = torch.einsum("bhn,bhnd->bhd", s.softmax(-1), self.v_ring[:, :, :n])
        return self.o(y.flatten(1))
