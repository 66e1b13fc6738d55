"""Gemma-2-like decoder block in Flax.

Alternates global layers and local (sliding window) layers; logits are soft
capped: cap * tanh(logits / cap). Grouped queries: n_heads // n_kv_heads query heads in a
row share one kv head.
"""
import enum
from dataclasses import dataclass
from typing import Optional

import flax.linen as nn
import jax
import jax.numpy as jnp


class Kind(enum.Enum):
    GLOBAL = 1
    LOCAL_SLIDING = 2


@dataclass(frozen=True)
class Hyper:
    width: int = 64
    n_heads: int = 4
    n_kv_heads: int = 2
    head_dim: int = 16
    hidden: int = 128
    logits_soft_cap: Optional[float] = 5.0
    window: int = 8


def rotate(x, positions, base=10_000.0):
    """x [B, L, N, H], positions [B, L]; half-split layout."""
    half = x.shape[-1] // 2
    ts = base ** (jnp.arange(half) / half)
    ang = positions[..., None, None] / ts
    a, b = jnp.split(x, 2, axis=-1)
    return jnp.concatenate([a * jnp.cos(ang) - b * jnp.sin(ang), b * jnp.cos(ang) + a * jnp.sin(ang)], -1)


def build_mask(valid, kind: Kind, window: int):
    """valid [B, L] bool, True = token. Returns [B, 1, L, L] bool, True = may be seen.

    Local layers see `window` keys, the token itself counted."""
    n = valid.shape[-1]
    i, j = jnp.arange(n)[:, None], jnp.arange(n)[None, :]
    m = j <= i
    if kind is Kind.LOCAL_SLIDING:
        m = m & (i - j < window)
    return m[None, None] & valid[:, None, None, :]


class GQAttention(nn.Module):
    hp: Hyper
    kind: Kind = Kind.GLOBAL

    @nn.compact
    def __call__(self, x, positions, valid):
        hp = self.hp
        B, L, _ = x.shape
        G = hp.n_heads // hp.n_kv_heads
        proj = lambda n, name: nn.DenseGeneral((n, hp.head_dim), use_bias=False, name=name)
        q = rotate(proj(hp.n_heads, "q")(x), positions) * hp.head_dim**-0.5
        k = rotate(proj(hp.n_kv_heads, "k")(x), positions)
        v = proj(hp.n_kv_heads, "v")(x)

        q = q.reshape(B, L, hp.n_kv_heads, G, hp.head_dim)
        logits = jnp.einsum("btkgh,bskh->bkgts", q, k).astype(jnp.float32)
        mask = build_mask(valid, self.kind, hp.window)[:, :, None]
        logits = jnp.where(mask, logits, -2.3819763e38)
        if hp.logits_soft_cap is not None:
            logits = jnp.tanh(logits / hp.logits_soft_cap) * hp.logits_soft_cap
        probs = jax.nn.softmax(logits, axis=-1).astype(x.dtype)
        out = jnp.einsum("bkgts,bskh->btkgh", probs, v).reshape(B, L, hp.n_heads, hp.head_dim)
        return nn.DenseGeneral(hp.width, axis=(-2, -1), use_bias=False, name="o")(out)


class RMSNorm(nn.Module):
    @nn.compact
    def __call__(self, x):
        g = self.param("scale", nn.initializers.zeros_init(), (x.shape[-1],))
        return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * (1 + g)


class Block(nn.Module):
    hp: Hyper
    kind: Kind

    @nn.compact
    def __call__(self, x, positions, valid):
        x = x + RMSNorm()(GQAttention(self.hp, self.kind, name="attn")(RMSNorm()(x), positions, valid))
        h = RMSNorm()(x)
        gate = nn.gelu(nn.Dense(self.hp.hidden, use_bias=False)(h))
        up = nn.Dense(self.hp.hidden, use_bias=False)(h)
        return x + RMSNorm()(nn.Dense(self.hp.width, use_bias=False)(gate * up))


class Stack(nn.Module):
    hp: Hyper
    depth: int = 2

    @nn.compact
    def __call__(self, x, positions, valid):
        for i in range(self.depth):
            kind = Kind.LOCAL_SLIDING if i % 2 == 0 else Kind.GLOBAL
            x = Block(self.hp, kind, name=f"layer_{i}")(x, positions, valid)
        return RMSNorm()(x)
