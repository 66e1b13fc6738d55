"""Local causal attention for packed rows, Flax module.

LocalAttention(heads, head_dim, window)(x, segment_ids)
    x            (batch, length, channels)
    segment_ids  (batch, length) ints, several documents may be packed into a
                 row; tokens read their own document only
    ->           (batch, length, channels)
`window` counts the keys that a token reads, the token itself included:
window=1 means that it reads only itself, window=3 that it reads itself and the
two tokens before it.  Later tokens are never read.
Scores q.k / sqrt(head_dim); float32 softmax whatever the compute dtype is.
"""
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp


def local_mask(length, window):
    """(length, length) bool, True = the column may be read by the row"""
    i = jnp.arange(length)
    back = i[:, None] - i[None, :]
    return (back >= 0) & (back <= window)


class LocalAttention(nn.Module):
    heads: int
    head_dim: int
    window: int
    dtype: Any = jnp.float32

    @nn.compact
    def __call__(self, x, segment_ids):
        B, L, C = x.shape
        qkv = nn.DenseGeneral((3, self.heads, self.head_dim), use_bias=False,
                              dtype=self.dtype, name="qkv")(x)
        q, k, v = (jnp.squeeze(t, 2) for t in jnp.split(qkv, 3, axis=2))

        s = jnp.einsum("blhd,bmhd->bhlm", q, k).astype(jnp.float32)
        s = s / self.head_dim ** 0.5
        same = segment_ids[:, :, None] == segment_ids[:, None, :]
        ok = same & local_mask(L, self.window)
        s = jnp.where(ok[:, None], s, jnp.finfo(jnp.float32).min)
        w = jax.nn.softmax(s, axis=-1).astype(self.dtype)

        y = jnp.einsum("bhlm,bmhd->blhd", w, v)
        return nn.DenseGeneral(C, axis=(-2, -1), dtype=self.dtype, name="out")(y)
