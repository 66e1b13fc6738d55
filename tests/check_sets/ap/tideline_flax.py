"""Tideline: time series transformer in Flax with linear distance penalties (ALiBi).

Penalties: head number h (counting from 1) of n heads has the slope 2^(-8h/n), n a power
of two; the penalty slope * (i - j) is taken off the score of query i and key j.
"""
from typing import Any, Sequence

import flax.linen as nn
import jax
import jax.numpy as jnp


def head_slopes(n: int):
    if n & (n - 1):
        raise ValueError("number of heads has to be a power of two")
    return 2.0 ** (-8.0 * jnp.arange(n) / n)


class DistanceAttention(nn.Module):
    """x: [batch, time, features]; observed: bool [batch, time], False = missing reading.

    A step always sees itself, even when its own reading is missing.
    """
    n_heads: int
    features: int
    dtype: Any = jnp.float32

    @nn.compact
    def __call__(self, x, observed=None):
        d = self.features // self.n_heads
        proj = lambda name: nn.DenseGeneral((self.n_heads, d), dtype=self.dtype, name=name)
        q, k, v = proj("q")(x), proj("k")(x), proj("v")(x)
        T = x.shape[-2]
        i = jnp.arange(T)
        gap = i[:, None] - i[None, :]
        logits = jnp.einsum("...qhd,...khd->...hqk", q, k) / jnp.sqrt(d).astype(self.dtype)
        logits = logits - head_slopes(self.n_heads)[:, None, None] * gap
        see = gap >= 0
        if observed is not None:
            see = see & (observed[..., None, None, :] | (gap == 0))
        logits = jnp.where(see, logits, jnp.finfo(logits.dtype).min)
        w = jax.nn.softmax(logits.astype(jnp.float32), axis=-1).astype(self.dtype)
        out = jnp.einsum("...hqk,...khd->...qhd", w, v)
        return nn.DenseGeneral(self.features, axis=(-2, -1), name="o")(out)


class TideBlock(nn.Module):
    n_heads: int
    features: int

    @nn.compact
    def __call__(self, x, observed=None):
        x = x + DistanceAttention(self.n_heads, self.features)(nn.RMSNorm()(x), observed)
        h = nn.Dense(4 * self.features)(nn.RMSNorm()(x))
        return x + nn.Dense(self.features)(nn.silu(h))


class Tideline(nn.Module):
    features: int = 32
    n_heads: int = 4
    depth: int = 2
    quantiles: Sequence[float] = (0.1, 0.5, 0.9)

    @nn.compact
    def __call__(self, series, observed=None):
        """series [batch, time, channels] -> [batch, time, len(quantiles)]"""
        x = nn.Dense(self.features)(series)
        for _ in range(self.depth):
            x = TideBlock(self.n_heads, self.features)(x, observed)
        return nn.Dense(len(self.quantiles))(nn.RMSNorm()(x))


def pinball(pred, target, quantiles):
    diff = target[..., None] - pred
    q = jnp.asarray(quantiles)
    return jnp.maximum(q * diff, (q - 1) * diff).mean()
