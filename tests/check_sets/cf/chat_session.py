"""Chat session: incremental decoding of one attention layer.

``extend`` takes the hidden states of any number of new tokens.  It may be called
for the prompt and then token by token; the result is that of one pass over
everything.  Keys are cached after rotation (absolute positions).
"""
from __future__ import annotations

import torch
import torch.nn as nn
import torch.nn.functional as F


def rope_table(max_len: int, dim: int, base: float = 500000.0):
    inv = 1.0 / base ** (torch.arange(0, dim, 2).float() / dim)
    ang = torch.outer(torch.arange(max_len).float(), inv)
    return ang.cos(), ang.sin()


def apply_rope(x, cos, sin):
    # x [B, H, T, D]; neighbouring channels form a pair
    a, b = x.unflatten(-1, (-1, 2)).unbind(-1)
    return torch.stack([a * cos - b * sin, a * sin + b * cos], dim=-1).flatten(-2)


class SessionAttention(nn.Module):
    def __init__(self, dim: int = 64, heads: int = 4, max_len: int = 512):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.out = nn.Linear(dim, dim, bias=False)
        cos, sin = rope_table(max_len, dim // heads)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)
        self.start()

    def start(self) -> None:
        """Forget the conversation."""
        self.k = self.v = None
        self.step = 0

    def extend(self, x: torch.Tensor) -> torch.Tensor:
        B, T, C = x.shape
        q, k, v = self.qkv(x).view(B, T, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        cos = self.cos[self.step:self.step + T]
        sin = self.sin[self.step:self.step + T]
        q, k = apply_rope(q, cos, sin), apply_rope(k, cos, sin)
        self.step += 1

        if self.k is not None:
            k = torch.cat([self.k, k], dim=2)
            v = torch.cat([self.v, v], dim=2)
        self.k, self.v = k, v

        S = k.size(2)
        visible = torch.ones(T, S, dtype=torch.bool, device=x.device).tril(S - T)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=visible)
        return self.out(y.transpose(1, 2).reshape(B, T, C))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.start()
        return self.extend(x)


class Session:
    """Keeps a layer and the tokens said so far for one user."""

    def __init__(self, layer: SessionAttention, embed: nn.Embedding):
        self.layer, self.embed = layer, embed
        self.tokens: list[int] = []
        layer.start()

    @torch.no_grad()
    def say(self, ids: list[int]) -> torch.Tensor:
        self.tokens += ids
        return self.layer.extend(self.embed(torch.tensor([ids])))[0, -1]


if __name__ == "__main__":
    s = Session(SessionAttention(), nn.Embedding(100, 64))
    s.say([5, 9, 2, 40])
    print(s.say([7]).shape)
