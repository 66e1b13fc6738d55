"""Transformer world model for pixel games (IRIS / DreamerV3-transformer flavour).

A frame is K tokens plus one action token.  During imagination whole frames are fed
at once and the keys/values of the earlier frames are kept.
"""
from dataclasses import dataclass
from typing import Optional, Tuple

import torch
import torch.nn as nn
from torch.nn import functional as F


@dataclass
class TransformerConfig:
    tokens_per_block: int
    max_blocks: int
    num_heads: int = 4
    embed_dim: int = 32
    attn_pdrop: float = 0.0

    @property
    def max_tokens(self):
        return self.tokens_per_block * self.max_blocks


class KeysValues:
    def __init__(self):
        self.k: Optional[torch.Tensor] = None
        self.v: Optional[torch.Tensor] = None

    def __len__(self) -> int:
        return 0 if self.k is None else self.k.size(2)

    def update(self, k: torch.Tensor, v: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor]:
        self.k = k if self.k is None else torch.cat((self.k, k), dim=2)
        self.v = v if self.v is None else torch.cat((self.v, v), dim=2)
        return self.k, self.v

    def prune(self, keep: int) -> None:
        if self.k is not None:
            self.k, self.v = self.k[:, :, -keep:], self.v[:, :, -keep:]


class SelfAttention(nn.Module):
    """Causal: every new token sees all cached tokens and the new ones up to itself.

    forward(x, kv_cache=None): x (B, T, C) are the T newest tokens.
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        assert config.embed_dim % config.num_heads == 0
        self.num_heads = config.num_heads
        self.query = nn.Linear(config.embed_dim, config.embed_dim)
        self.key = nn.Linear(config.embed_dim, config.embed_dim)
        self.value = nn.Linear(config.embed_dim, config.embed_dim)
        self.attn_drop = nn.Dropout(config.attn_pdrop)
        self.proj = nn.Linear(config.embed_dim, config.embed_dim)
        causal = torch.tril(torch.ones(config.max_tokens, config.max_tokens, dtype=torch.bool))
        self.register_buffer("mask", causal, persistent=False)

    def forward(self, x: torch.Tensor, kv_cache: Optional[KeysValues] = None) -> torch.Tensor:
        B, T, C = x.size()
        q = self.query(x).view(B, T, self.num_heads, C // self.num_heads).transpose(1, 2)
        k = self.key(x).view(B, T, self.num_heads, C // self.num_heads).transpose(1, 2)
        v = self.value(x).view(B, T, self.num_heads, C // self.num_heads).transpose(1, 2)
        if kv_cache is not None:
            k, v = kv_cache.update(k, v)
        S = k.size(2)
        att = (q @ k.transpose(-2, -1)) * (C // self.num_heads) ** -0.5
        att = att.masked_fill(~self.mask[:T, :S], float("-inf"))
        att = F.softmax(att, dim=-1)
        att = self.attn_drop(att)
        y = (att @ v).transpose(1, 2).contiguous().view(B, T, C)
        return self.proj(y)


class Block(nn.Module):
    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(config.embed_dim), nn.LayerNorm(config.embed_dim)
        self.attn = SelfAttention(config)
        self.mlp = nn.Sequential(
            nn.Linear(config.embed_dim, 4 * config.embed_dim), nn.GELU(),
            nn.Linear(4 * config.embed_dim, config.embed_dim),
        )

    def forward(self, x, cache=None):
        x = x + self.attn(self.ln1(x), cache)
        return x + self.mlp(self.ln2(x))
