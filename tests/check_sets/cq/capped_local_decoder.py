"""Local attention layer of a Gemma-2 style decoder, with KV cache."""
import torch
import torch.nn as nn


def rope(x, positions, base=10000.0):
    """Half-split rotary embedding. x: (B, H, L, d), positions: (L,) absolute positions"""
    half = x.size(-1) // 2
    freq = base ** (-torch.arange(half, device=x.device, dtype=torch.float32) / half)
    ang = positions.float()[:, None] * freq
    cos, sin = ang.cos(), ang.sin()
    a, b = x[..., :half], x[..., half:]
    return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)


class LocalAttention(nn.Module):
    """Causal sliding-window attention.

    Args:
        window: a token sees at most `window` tokens, itself included.
        logit_cap: the scaled logits are squashed with cap * tanh(logits / cap) before the mask.

    forward(x, cache): x (B, L, dim) are the new tokens, cache is None or the (k, v) returned for
    the tokens before them, each (B, H, P, d), k already rotated. Feeding a sequence in pieces gives
    the same result as feeding it at once.
    """

    def __init__(self, dim=32, n_heads=4, window=4, logit_cap=2.0):
        super().__init__()
        self.n_heads, self.d = n_heads, dim // n_heads
        self.window = window
        self.logit_cap = logit_cap
        self.q_proj = nn.Linear(dim, dim, bias=False)
        self.k_proj = nn.Linear(dim, dim, bias=False)
        self.v_proj = nn.Linear(dim, dim, bias=False)
        self.o_proj = nn.Linear(dim, dim, bias=False)

    def forward(self, x, cache=None):
        B, L, dim = x.shape
        q, k, v = (
            f(x).view(B, L, self.n_heads, self.d).transpose(1, 2)
            for f in (self.q_proj, self.k_proj, self.v_proj)
        )
        pos = torch.arange(L, device=x.device)
        q, k = rope(q, pos), rope(k, pos)
        if cache is not None:
            k = torch.cat([cache[0], k], dim=2)
            v = torch.cat([cache[1], v], dim=2)
        total = k.size(2)

        logits = q @ k.transpose(-2, -1) * self.d ** -0.5
        rows = torch.arange(total - L, total, device=x.device)[:, None]
        cols = torch.arange(total, device=x.device)[None, :]
        keep = (cols <= rows) & (rows - cols <= self.window)
        logits = logits.masked_fill(~keep, torch.finfo(logits.dtype).min)
        probs = torch.softmax(logits.float(), dim=-1).to(v.dtype)

        y = (probs @ v).transpose(1, 2).reshape(B, L, dim)
        return self.o_proj(y), (k, v)
