"""Flax port of a small GPT-J-like model with grouped queries."""
import dataclasses
from typing import Any

import flax.linen as nn
import jax.numpy as jnp
import jax


@dataclasses.dataclass(frozen=True)
class Cfg:
    dim: int = 32
    heads: int = 4
    kv_heads: int = 2
    rope_base: float = 10000.0
    dtype: Any = jnp.float32

    @property
    def head_dim(self):
        return self.dim // self.heads


def apply_rope(x, positions, base):
    """GPT-J layout: pairs are (0,1), (2,3), ... x: [B, T, H, D], positions: [B, T]."""
    d = x.shape[-1]
    freq = base ** (-jnp.arange(0, d, 2) / d)
    ang = positions[..., None, None] * freq           # B T 1 D/2
    c, s = jnp.cos(ang), jnp.sin(ang)
    even, odd = x[..., 0::2], x[..., 1::2]
    return jnp.stack([even * c - odd * s, even * s + odd * c], axis=-1).reshape(x.shape)


class GroupedQueryAttention(nn.Module):
    cfg: Cfg

    @nn.compact
    def __call__(self, x, segment_ids):
        """x [B, T, E]; segment_ids [B, T] int, several documents packed in one row.

        A token sees earlier tokens (and itself) of its own document only. Positions
        restart with every document; documents are contiguous.
        """
        cfg = self.cfg
        B, T, _ = x.shape
        dense = lambda h, name: nn.DenseGeneral((h, cfg.head_dim), use_bias=False, dtype=cfg.dtype, name=name)
        q, k, v = dense(cfg.heads, "q")(x), dense(cfg.kv_heads, "k")(x), dense(cfg.kv_heads, "v")(x)
        idx = jnp.arange(T)[None]
        new = jnp.concatenate([jnp.ones((B, 1), bool), segment_ids[:, 1:] != segment_ids[:, :-1]], 1)
        start = jax.lax.cummax(jnp.where(new, idx, 0), axis=1)
        pos = idx - start
        q, k = apply_rope(q, pos, cfg.rope_base), apply_rope(k, pos, cfg.rope_base)
        g = cfg.heads // cfg.kv_heads
        k, v = jnp.repeat(k, g, axis=2), jnp.repeat(v, g, axis=2)
        logits = jnp.einsum("bthd,bshd->bhts", q, k).astype(jnp.float32) * cfg.head_dim ** -0.5
        same = segment_ids[:, None, :, None] == segment_ids[:, None, None, :]
        keep = same & jnp.tril(jnp.ones((T, T), bool))
        w = jax.nn.softmax(jnp.where(keep, logits, -1e30), axis=-1).astype(cfg.dtype)
        o = jnp.einsum("bhts,bshd->bthd", w, v)
        return nn.DenseGeneral(cfg.dim, axis=(-2, -1), use_bias=False, name="o")(o)
