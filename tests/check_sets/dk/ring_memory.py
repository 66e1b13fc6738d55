"""On-board memory of the inspection drone: ring buffer of the last W observations.

RingMemory(dim, heads, W).step(x): x [B, dim] is the newest observation. It is stored
and then looks at the last W observations, itself included (fewer at the beginning of a
flight). reset(B) starts a flight.

The buffer is written cyclically, so slots are NOT in time order; the age of an
observation (0 = now) enters through a learned bias age_bias [heads, W] that is added to
q.k / sqrt(dim / heads).  rollout(xs) for xs [B, T, dim] runs T steps -> [B, T, dim].
"""
import math

import torch
from torch import nn


class RingMemory(nn.Module):
    def __init__(self, dim, heads, W):
        super().__init__()
        self.dim, self.heads, self.W = dim, heads, W
        self.inp = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)
        self.age_bias = nn.Parameter(torch.randn(heads, W) * 0.5)
        self.t = -1

    def reset(self, B):
        d = self.dim // self.heads
        ref = self.age_bias
        self.kbuf = ref.new_zeros(B, self.heads, self.W, d)
        self.vbuf = ref.new_zeros(B, self.heads, self.W, d)
        self.born = torch.full((self.W,), -1, dtype=torch.long, device=ref.device)
        self.t = -1

    def _put(self, buf, slot, new):
        buf = buf.clone()
        buf[:, :, slot] = new
        return buf

    def step(self, x):
        B = x.size(0)
        self.t += 1
        slot = self.t % self.W
        q, k, v = (z.view(B, self.heads, -1) for z in self.inp(x).chunk(3, -1))
        self.kbuf = self._put(self.kbuf, slot, k)
        self.vbuf = self._put(self.vbuf, slot, v)
        self.born[slot] = self.t

        age = (self.t - self.born).clamp(0, self.W - 1)
        s = torch.einsum("bhd,bhwd->bhw", q, self.kbuf) / math.sqrt(q.size(-1))
        s = s + self.age_bias[:, age]
        s = s.masked_fill(self.born < 0, float("-inf"))
        y = torch.einsum("bhw,bhwd->bhd", torch.softmax(s, -1), self.vbuf)
        return self.out(y.reshape(B, self.dim))

    def rollout(self, xs):
        self.reset(xs.size(0))
        return torch.stack([self.step(xs[:, t]) for t in range(xs.size(1))], dim=1)
