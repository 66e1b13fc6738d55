"""Poem generator: attention with rotary positions and a growing cache."""
import torch
import torch.nn as nn
import torch.nn.functional as F


def rope(x, positions, theta=10000.0):
    """x (B, H, T, d), positions (T,): rotate the halves (x[..., :d/2], x[..., d/2:]) by
    positions * theta ** (-2i/d)."""
    half = x.size(-1) // 2
    inv = theta ** (-torch.arange(half, device=x.device).float() / half)
    ang = positions.float()[:, None] * inv
    c, s = ang.cos(), ang.sin()
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * c - b * s, b * c + a * s], -1)


class PoemAttention(nn.Module):
    """step(x, cache) feeds the next T tokens (B, T, D) of the poem, causal, and returns (B, T, D).

    cache is a dict, empty at the start of a poem; it is filled with the rotated keys and the
    values of all tokens so far and must be passed again with the next tokens. Feeding a poem in
    pieces gives the same as feeding it at once.
    """

    def __init__(self, D=32, H=4):
        super().__init__()
        self.H = H
        self.wqkv = nn.Linear(D, 3 * D, bias=False)
        self.wo = nn.Linear(D, D, bias=False)

    def step(self, x, cache):
        B, T, D = x.shape
        q, k, v = (t.view(B, T, self.H, -1).transpose(1, 2) for t in self.wqkv(x).chunk(3, -1))
        old = cache["k"].size(2) if "k" in cache else 0
        pos = torch.arange(T, device=x.device)
        q, k = rope(q, pos), rope(k, pos)
        if old:
            k = torch.cat([cache["k"], k], 2)
            v = torch.cat([cache["v"], v], 2)
        cache["k"], cache["v"] = k, v

        seen = torch.ones(T, old + T, dtype=torch.bool, device=x.device).tril(diagonal=old)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=seen)
        return self.wo(y.transpose(1, 2).reshape(B, T, D))

    forward = step
