import torch
from torch import nn


def rotate_pairs(x, pos, theta=10000.0):
    """x (..., n, d) with d even; pairs (0,1), (2,3), ... are turned by pos * theta^(-2i/d)."""
    d = x.size(-1)
    w = theta ** (-torch.arange(0, d, 2, device=x.device) / d)
    ang = pos[:, None] * w
    c, s = ang.cos(), ang.sin()
    even, odd = x[..., 0::2], x[..., 1::2]
    return torch.stack((even * c - odd * s, even * s + odd * c), dim=-1).flatten(-2)


class RotaryDecoderAttention(nn.Module):
    """Causal self-attention with rotary positions; keys go into the cache after rotation."""

    def __init__(self, width=48, n_heads=4):
        super().__init__()
        self.n_heads = n_heads
        self.wq = nn.Linear(width, width, bias=False)
        self.wk = nn.Linear(width, width, bias=False)
        self.wv = nn.Linear(width, width, bias=False)
        self.wo = nn.Linear(width, width, bias=False)

    def forward(self, x, cache=None):
        # x: (B, n, width) the new tokens; cache: (k, v), each (B, n_heads, past, width // n_heads)
        B, n, W = x.shape
        past = cache[0].size(2) if cache is not None else 0
        q, k, v = (p(x).view(B, n, self.n_heads, -1).transpose(1, 2) for p in (self.wq, self.wk, self.wv))
        pos = torch.arange(n, device=x.device)
        q, k = rotate_pairs(q, pos), rotate_pairs(k, pos)
        if cache is not None:
            k = torch.cat((cache[0], k), dim=2)
            v = torch.cat((cache[1], v), dim=2)
        s = q @ k.transpose(2, 3) / (W // self.n_heads) ** 0.5
        hide = torch.ones(n, past + n, dtype=torch.bool, device=x.device).triu(past + 1)
        a = s.masked_fill(hide, float("-inf")).softmax(dim=-1)
        return self.wo((a @ v).transpose(1, 2).reshape(B, n, W)), (k, v)


def prefill_then_step(attn, tokens):
    """All tokens but the last in one go, then the last one through the cache."""
    first, cache = attn(tokens[:, :-1])
    last, _ = attn(tokens[:, -1:], cache)
    return torch.cat((first, last), dim=1)
