"""ECO code of a chess opening from its first plies (Flax).

Input is a [batch, plies, features] array of encoded half-moves and the number of
plies that were played.  Each half-move attends to itself and to those before it.
Scores are scaled dot products, as usual.
"""
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

ECO_VOLUMES = "ABCDE"
N_CODES = 500


def ply_positions(n, dim):
    pos = jnp.arange(n)[:, None]
    freq = jnp.exp(-jnp.log(10000.0) * jnp.arange(0, dim, 2) / dim)
    return jnp.concatenate([jnp.sin(pos * freq), jnp.cos(pos * freq)], axis=-1)


class PlyAttention(nn.Module):
    heads: int
    head_dim: int
    dtype: Any = jnp.float32

    @nn.compact
    def __call__(self, x, played=None):
        """x [B, T, C]; played int [B] or None (all played)."""
        proj = lambda name: nn.DenseGeneral((self.heads, self.head_dim), dtype=self.dtype, name=name)
        q, k, v = proj("q")(x), proj("k")(x), proj("v")(x)
        T = x.shape[1]
        allow = jnp.tril(jnp.ones((T, T), bool))[None, None]
        if played is not None:
            allow = allow & (jnp.arange(T)[None, :] < played[:, None])[:, None, None, :]
        depth = q.shape[1]
        logits = jnp.einsum("bqhd,bkhd->bhqk", q, k) / jnp.sqrt(depth).astype(self.dtype)
        logits = jnp.where(allow, logits, -jnp.inf)
        weights = jax.nn.softmax(logits, axis=-1)
        y = jnp.einsum("bhqk,bkhd->bqhd", weights, v)
        return nn.DenseGeneral(x.shape[-1], axis=(-2, -1), dtype=self.dtype, name="o")(y)


class OpeningNet(nn.Module):
    width: int = 64
    heads: int = 4
    blocks: int = 2

    @nn.compact
    def __call__(self, plies, played):
        x = nn.Dense(self.width)(plies) + ply_positions(plies.shape[1], self.width)
        for _ in range(self.blocks):
            x = x + PlyAttention(self.heads, self.width // self.heads)(nn.LayerNorm()(x), played)
            x = x + nn.Dense(self.width)(nn.gelu(nn.Dense(4 * self.width)(nn.LayerNorm()(x))))
        last = jnp.take_along_axis(x, (played - 1)[:, None, None], axis=1)[:, 0]
        return nn.Dense(N_CODES)(last)


def eco_name(index: int) -> str:
    return f"{ECO_VOLUMES[index // 100]}{index % 100:02d}"
