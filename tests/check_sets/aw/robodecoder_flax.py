"""Action-token decoder of the mobile manipulator (Flax).  During a roll-out tokens come one by
one and keys/values are kept in a fixed buffer of `max_len` rows."""
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp


def rotate(x, positions, base=10000.0):
    """x [B, L, H, D], positions [L] absolute."""
    d = x.shape[-1]
    freq = base ** (-jnp.arange(0, d, 2) / d)
    ang = positions[:, None] * freq
    c, s = jnp.cos(ang)[None, :, None], jnp.sin(ang)[None, :, None]
    a, b = jnp.split(x, 2, axis=-1)
    return jnp.concatenate([a * c - b * s, a * s + b * c], axis=-1)


def empty_buffer(batch, max_len, heads, dim):
    z = jnp.zeros((batch, max_len, heads, dim))
    return {"k": z, "v": z, "filled": jnp.array(0, jnp.int32)}


class BufferedAttention(nn.Module):
    heads: int
    dim: int

    @nn.compact
    def __call__(self, x, buf: Any = None):
        B, L, C = x.shape

        def dense(name):
            return nn.Dense(self.heads * self.dim, use_bias=False, name=name)(x).reshape(B, L, self.heads, self.dim)

        q, k, v = dense("q"), dense("k"), dense("v")
        pos = jnp.arange(L)
        q, k = rotate(q, pos), rotate(k, pos)
        if buf is not None:
            at = buf["filled"]
            k = jax.lax.dynamic_update_slice_in_dim(buf["k"], k.astype(buf["k"].dtype), at, axis=1)
            v = jax.lax.dynamic_update_slice_in_dim(buf["v"], v.astype(buf["v"].dtype), at, axis=1)
            buf = {"k": k, "v": v, "filled": at + L}
            rows = at + jnp.arange(L)
        else:
            rows = pos
        see = jnp.arange(k.shape[1])[None, :] <= rows[:, None]
        s = jnp.einsum("blhd,bmhd->bhlm", q, k) / jnp.sqrt(self.dim)
        s = jnp.where(see, s, -jnp.inf)
        y = jnp.einsum("bhlm,bmhd->blhd", jax.nn.softmax(s, -1), v)
        return nn.Dense(C, use_bias=False, name="o")(y.reshape(B, L, -1)), buf


class ActionDecoder(nn.Module):
    vocab: int = 64
    width: int = 32
    heads: int = 2

    @nn.compact
    def __call__(self, ids, buf=None):
        x = nn.Embed(self.vocab, self.width)(ids)
        y, buf = BufferedAttention(self.heads, self.width // self.heads)(nn.LayerNorm()(x), buf)
        x = x + y
        x = x + nn.Dense(self.width)(nn.relu(nn.Dense(2 * self.width)(nn.LayerNorm()(x))))
        return nn.Dense(self.vocab)(x), buf
