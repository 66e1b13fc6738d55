"""Codon-level encoder (Flax linen) for mRNA half-life regression.

Bidirectional, so the linear distance penalty is symmetric: -slope * |i - j|.
Slopes follow the ALiBi paper, including the case of a head count that is not a
power of two (first the slopes of the next lower power of two, then every second
slope of the next higher one).
"""
import math
from typing import Any, Optional

import flax.linen as nn
import jax
import jax.numpy as jnp

CODONS = [a + b + c for a in "UCAG" for b in "UCAG" for c in "UCAG"]
STOP = {"UAA", "UAG", "UGA"}


def tokenise(mrna: str) -> list[int]:
    ids = []
    for i in range(0, len(mrna) - 2, 3):
        codon = mrna[i:i + 3].upper().replace("T", "U")
        ids.append(CODONS.index(codon) + 1)          # 0 is padding
        if codon in STOP:
            break
    return ids


def alibi_slopes(n: int) -> list[float]:
    def pow2(m: int) -> list[float]:
        start = 2.0 ** (-8.0 / m)
        return [start ** (h + 1) for h in range(m)]

    low = 2 ** math.floor(math.log2(n))
    slopes = pow2(low)
    if low < n:
        slopes += pow2(2 * low)[0::2][: n - low]
    return slopes


class CodonAttention(nn.Module):
    n_heads: int
    head_dim: int
    dropout: float = 0.0
    dtype: Any = jnp.float32

    @nn.compact
    def __call__(self, x: jax.Array, keep: Optional[jax.Array] = None, *, deterministic: bool = True) -> jax.Array:
        """x [b, n, c]; keep [b, n] bool, True for a real codon."""
        n, c = x.shape[-2:]
        proj = lambda name: nn.DenseGeneral((self.n_heads, self.head_dim), dtype=self.dtype, name=name)(x)
        q, k, v = proj("query"), proj("key"), proj("value")

        logits = jnp.einsum("bqhd,bkhd->bhqk", q, k).astype(jnp.float32) * self.head_dim ** -0.5
        i = jnp.arange(n)
        dist = jnp.abs(i[:, None] - i[None, :]).astype(jnp.float32)
        slope = jnp.asarray(alibi_slopes(self.n_heads))
        logits = logits - slope[:, None, None] * dist
        if keep is not None:
            logits = jnp.where(keep[:, None, None, :], logits, -1e30)
        probs = jax.nn.softmax(logits, axis=-1).astype(self.dtype)
        probs = nn.Dropout(self.dropout)(probs, deterministic=deterministic)
        out = jnp.einsum("bhqk,bkhd->bqhd", probs, v)
        return nn.DenseGeneral(c, axis=(-2, -1), dtype=self.dtype, name="out")(out)


class HalfLife(nn.Module):
    width: int = 48
    layers: int = 2
    heads: int = 6

    @nn.compact
    def __call__(self, ids, *, train=False):
        keep = ids > 0
        x = nn.Embed(len(CODONS) + 1, self.width)(ids)
        for _ in range(self.layers):
            x = x + CodonAttention(self.heads, self.width // self.heads, 0.1)(
                nn.LayerNorm()(x), keep, deterministic=not train)
            y = nn.Dense(2 * self.width)(nn.LayerNorm()(x))
            x = x + nn.Dense(self.width)(nn.gelu(y))
        w = keep[..., None].astype(x.dtype)
        pooled = (x * w).sum(1) / jnp.maximum(w.sum(1), 1)
        return nn.Dense(1)(pooled)[..., 0]


if __name__ == "__main__":
    ids = jnp.array([tokenise("AUGGCUUACUAA") + [0, 0]])
    net = HalfLife()
    print(net.apply(net.init(jax.random.key(0), ids), ids))
