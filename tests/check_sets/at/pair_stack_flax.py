"""Pair stack of a small structure predictor (flax.linen)."""
from typing import Any
import jax
import jax.numpy as jnp
import flax.linen as nn


class Transition(nn.Module):
    factor: int = 2

    @nn.compact
    def __call__(self, z):
        h = nn.LayerNorm()(z)
        h = nn.Dense(z.shape[-1] * self.factor)(h)
        return nn.Dense(z.shape[-1])(nn.relu(h))


class TriangleAttention(nn.Module):
    """Gated self-attention over the edges of the pair representation.

    orientation "per_row": around the starting node -- edge (i, j) attends to
    the edges (i, k) with the bias b(j, k).  "per_column": around the ending node,
    edge (i, j) attends to (k, j) with the bias b(k, i) [pair tensor transposed].
    `pair_mask[i, j]` is 1 for edges between residues that exist.
    """
    num_head: int
    key_dim: int
    orientation: str = "per_row"
    dtype: Any = jnp.float32

    @nn.compact
    def __call__(self, z, pair_mask):
        assert self.orientation in ("per_row", "per_column")
        if self.orientation == "per_column":
            z = jnp.swapaxes(z, -2, -3)
            pair_mask = jnp.swapaxes(pair_mask, -1, -2)
        c = z.shape[-1]
        z = nn.LayerNorm(name="query_norm")(z)

        proj = lambda n: nn.DenseGeneral((self.num_head, self.key_dim), use_bias=False, name=n)
        q = proj("q")(z) * self.key_dim ** -0.5
        k = proj("k")(z)
        v = proj("v")(z)
        b = nn.Dense(self.num_head, use_bias=False, name="feat_2d")(z)
        g = nn.sigmoid(nn.DenseGeneral((self.num_head, self.key_dim), name="gate")(z))

        logits = jnp.einsum("...iqhc,...ikhc->...ihqk", q, k)
        logits = logits + jnp.moveaxis(b, -1, -3)[..., None, :, :, :]
        logits = logits + 1e9 * (pair_mask - 1.0)[..., :, None, None, :]
        attn = jax.nn.softmax(logits, axis=-1)

        o = jnp.einsum("...ihqk,...ikhc->...iqhc", attn, v) * g
        o = nn.DenseGeneral(c, axis=(-2, -1), name="out")(o)
        if self.orientation == "per_column":
            o = jnp.swapaxes(o, -2, -3)
        return o


class PairBlock(nn.Module):
    num_head: int = 4
    key_dim: int = 8

    @nn.compact
    def __call__(self, z, pair_mask):
        z = z + TriangleAttention(self.num_head, self.key_dim, "per_row")(z, pair_mask)
        z = z + TriangleAttention(self.num_head, self.key_dim, "per_column")(z, pair_mask)
        return z + Transition()(z)


class DistogramHead(nn.Module):
    bins: int = 36

    @nn.compact
    def __call__(self, z):
        half = nn.Dense(self.bins)(z)
        return half + jnp.swapaxes(half, -2, -3)
