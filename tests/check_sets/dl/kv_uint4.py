"""4-bit key/value cache (asymmetric, one scale and zero per token and head), decode only.

code = round((x - lo) / step) with lo = min, step = (max - min) / 15 over the head's d numbers;
x is read back as code * step + lo.  Attention is computed on what is read back.
"""
import math

import torch


def encode(x):
    """(B, H, d) -> codes uint8 (B, H, d), step (B, H, 1), lo (B, H, 1)"""
    lo = x.amin(-1, keepdim=True)
    step = (x.amax(-1, keepdim=True) - lo).clamp_min(1e-6) / 15
    return ((x - lo) / step).round().to(torch.uint8), step, lo


class NibbleCache:
    def __init__(self):
        self.k, self.k_step, self.k_lo = [], [], []
        self.v, self.v_step, self.v_lo = [], [], []

    def push(self, key, value):
        for x, (c, s, z) in (
            (key, (self.k, self.k_step, self.k_lo)),
            (value, (self.v, self.v_step, self.v_lo)),
        ):
            code, step, lo = encode(x)
            c.append(code)
            s.append(step)
            z.append(lo)

    def keys(self):
        """(B, H, n, d)"""
        return torch.stack(self.k, 2) * torch.stack(self.k_step, 2) + torch.stack(self.k_lo, 2)

    def values(self):
        """(B, H, n, d)"""
        return torch.stack(self.v, 2) * torch.stack(self.k_step, 2) + torch.stack(self.v_lo, 2)


def decode_step(q, key, value, cache):
    """q, key, value (B, H, d) of the newest token; cache: NibbleCache, which takes the token
    first.  Returns (B, H, d): softmax(q K^T / sqrt(d)) V with the read-back K and V of all
    tokens so far."""
    cache.push(key, value)
    K, V = cache.keys(), cache.values()
    logits = torch.einsum("bhd,bhnd->bhn", q, K) / math.sqrt(q.shape[-1])
    return torch.einsum("bhn,bhnd->bhd", torch.softmax(logits, -1), V)
