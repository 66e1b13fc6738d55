"""Streaming keyword spotter: attention over the last `span` audio frames, frame by frame.

The offline model uses a banded causal mask (a frame sees itself and the span - 1 frames
before it).  On the device I keep k and v in a ring of `span` slots; nothing is ever
shifted.  No positional term in the scores, so the order of the slots is irrelevant.
"""
import torch
from torch import nn


class RingAttention(nn.Module):
    """step(frame) -> (B, dim) for one new frame (B, dim); offline(x) is the reference,
    x (B, T, dim).  Both give the same numbers; call reset() before a new utterance."""

    def __init__(self, dim, heads, span):
        super().__init__()
        self.heads, self.hd, self.span = heads, dim // heads, span
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(dim, dim) for _ in range(4))
        self.reset()

    def reset(self):
        self.seen = 0
        self.ring_k = self.ring_v = None

    @torch.no_grad()
    def step(self, frame):
        B = frame.size(0)
        q, k, v = (w(frame).view(B, self.heads, self.hd) for w in (self.wq, self.wk, self.wv))
        if self.ring_k is None:
            self.ring_k = k.new_zeros(self.span, B, self.heads, self.hd)
            self.ring_v = torch.zeros_like(self.ring_k)
        slot = self.seen % self.span
        self.ring_k[slot] = k
        self.ring_v[slot] = v
        self.seen += 1
        n = min(self.seen, self.span)                     # slots filled so far
        e = torch.einsum("bhd,nbhd->bhn", q, self.ring_k[:n]) / self.hd ** 0.5
        a = e.softmax(dim=-1)
        y = torch.einsum("bhn,nbhd->bhd", a, self.ring_v[:n])
        return self.wo(y.reshape(B, -1))

    def offline(self, x):
        B, T, _ = x.shape
        q, k, v = (w(x).view(B, T, self.heads, self.hd).transpose(1, 2)
                   for w in (self.wq, self.wk, self.wv))
        age = torch.arange(T)[:, None] - torch.arange(T)[None, :]
        ok = (age >= 0) & (age < self.span)
        e = (q @ k.transpose(2, 3) / self.hd ** 0.5).masked_fill(~ok, float("-inf"))
        return self.wo((e.softmax(-1) @ v).transpose(1, 2).reshape(B, T, -1))
