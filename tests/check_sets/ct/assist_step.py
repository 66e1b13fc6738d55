"""Voice assistant decoder attention: prefill once, then token by token."""
import torch
import torch.nn as nn
import torch.nn.functional as F


def rope(x, pos, theta=10000.0):
    """Half-split rotary. x: (B, H, L, D), pos: (L,) absolute positions."""
    half = x.size(-1) // 2
    f = theta ** (-torch.arange(half, device=x.device, dtype=torch.float32) / half)
    a = pos.float()[:, None] * f
    c, s = a.cos(), a.sin()
    lo, hi = x[..., :half], x[..., half:]
    return torch.cat([lo * c - hi * s, hi * c + lo * s], dim=-1)


class AssistAttention(nn.Module):
    """
    Causal self-attention with a cache kept in a plain dict.

    x     : (B, n, dim) the new tokens
    cache : dict, {} at the start of a dialogue; 'k' holds rotated keys, 'v' values
            of shape (B, H, past, D). It is updated by every call.
    Returns (B, n, dim). In eval mode prefill + steps equals one full pass, and
    nothing is random. drop applies to the weights while training.
    """

    def __init__(self, dim=32, heads=4, drop=0.2):
        super().__init__()
        self.heads, self.d, self.drop = heads, dim // heads, drop
        self.q = nn.Linear(dim, dim, bias=False)
        self.k = nn.Linear(dim, dim, bias=False)
        self.v = nn.Linear(dim, dim, bias=False)
        self.o = nn.Linear(dim, dim, bias=False)

    def forward(self, x, cache=None):
        B, n, E = x.shape
        cache = {} if cache is None else cache
        past = cache["k"].size(2) if "k" in cache else 0
        shape = lambda t: t.view(B, n, self.heads, self.d).transpose(1, 2)
        pos = torch.arange(n, device=x.device)
        q = rope(shape(self.q(x)), pos)
        k = rope(shape(self.k(x)), pos)
        v = shape(self.v(x))
        if past:
            k = torch.cat([cache["k"], k], dim=2)
            v = torch.cat([cache["v"], v], dim=2)
        cache["k"], cache["v"] = k, v
        row = torch.arange(past, past + n, device=x.device)[:, None]
        col = torch.arange(past + n, device=x.device)[None]
        y = F.scaled_dot_product_attention(
            q, k, v, attn_mask=col <= row,
            dropout_p=self.drop,
        )
        return self.o(y.transpose(1, 2).reshape(B, n, E))
