"""Decoder attention with rotary embeddings, logit soft-capping (Grok-1, Gemma 2) and a KV cache.

The cache lives in the module; call reset() between prompts.
"""
import torch
from torch import nn


def rotary(x: torch.Tensor, positions: torch.Tensor, base: float = 10000.0) -> torch.Tensor:
    """x (B, H, T, d), positions (T,) in the whole sequence"""
    half = x.shape[-1] // 2
    inv_freq = base ** (-torch.arange(half, device=x.device, dtype=torch.float32) / half)
    angle = positions.to(torch.float32)[:, None] * inv_freq
    cos, sin = angle.cos(), angle.sin()
    x1, x2 = x[..., :half], x[..., half:]
    return torch.cat((x1 * cos - x2 * sin, x1 * sin + x2 * cos), dim=-1)


class CachedAttention(nn.Module):
    """Causal self-attention. x (B, T, dim) holds the tokens that follow those already cached."""

    def __init__(self, dim: int = 32, heads: int = 4, softcap: float = 30.0):
        super().__init__()
        self.heads = heads
        self.head_dim = dim // heads
        self.softcap = softcap
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.out = nn.Linear(dim, dim, bias=False)
        self.reset()

    def reset(self):
        self.k_cache = None
        self.v_cache = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        B, T, C = x.shape
        q, k, v = (
            t.view(B, T, self.heads, self.head_dim).transpose(1, 2) for t in self.qkv(x).chunk(3, dim=-1)
        )
        seen = 0 if self.k_cache is None else self.k_cache.shape[2]
        pos = torch.arange(T, device=x.device)
        q, k = rotary(q, pos), rotary(k, pos)
        if seen:
            k = torch.cat((self.k_cache, k), dim=2)
            v = torch.cat((self.v_cache, v), dim=2)
        self.k_cache, self.v_cache = k, v

        scores = q @ k.transpose(-1, -2) / self.head_dim ** 0.5
        row = torch.arange(seen, seen + T, device=x.device)[:, None]
        col = torch.arange(seen + T, device=x.device)[None, :]
        scores = scores.masked_fill(col > row, float("-inf"))
        scores = self.softcap * torch.tanh(scores / self.softcap)
        y = scores.softmax(dim=-1) @ v
        return self.out(y.transpose(1, 2).reshape(B, T, C))
