"""Perceiver-like encoder in flax: a few latents read a long byte array."""
from typing import Optional

import flax.linen as nn
import jax
import jax.numpy as jnp


class LatentsRead(nn.Module):
    """Cross attention; `latents` (B, M, C), `array` (B, N, A), `valid` (B, N) or None.

    Items where valid is False take no part. Without a valid item the read is zero.
    """
    heads: int
    qk: int
    vdim: int
    rate: float = 0.0

    @nn.compact
    def __call__(self, latents, array, valid: Optional[jax.Array] = None, train: bool = False):
        ln = nn.LayerNorm(name="ln_array")(array)
        q = nn.DenseGeneral((self.heads, self.qk), name="q")(nn.LayerNorm(name="ln_lat")(latents))
        k = nn.DenseGeneral((self.heads, self.qk), name="k")(ln)
        v = nn.DenseGeneral((self.heads, self.vdim), name="v")(ln)

        logits = jnp.einsum("bmhq,bnhq->bhmn", q, k) * jax.lax.rsqrt(jnp.float32(self.qk))
        where = None
        if valid is not None:
            where = jnp.broadcast_to(valid.astype(bool)[:, None, None], logits.shape)
            peak = jnp.max(logits, -1, keepdims=True, where=where, initial=jnp.finfo(logits.dtype).min)
        else:
            peak = jnp.max(logits, -1, keepdims=True)
        e = jnp.exp(jnp.where(True if where is None else where, logits - jax.lax.stop_gradient(peak), 0.0))
        if where is not None:
            e = jnp.where(where, e, 0.0)
        z = e.sum(-1, keepdims=True)
        w = e / jnp.where(z == 0, 1.0, z)
        w = nn.Dropout(self.rate, deterministic=not train)(w)
        y = jnp.einsum("bhmn,bnhv->bmhv", w, v)
        return nn.DenseGeneral(latents.shape[-1], axis=(-2, -1), use_bias=False, name="o")(y)


class Encoder(nn.Module):
    m: int = 16
    c: int = 64

    @nn.compact
    def __call__(self, array, valid=None, train=False):
        z = self.param("z", nn.initializers.normal(0.02), (self.m, self.c))
        z = jnp.broadcast_to(z, (array.shape[0], self.m, self.c))
        z = z + LatentsRead(4, 16, 16)(z, array, valid, train)
        return z + nn.Dense(self.c)(nn.gelu(nn.Dense(4 * self.c)(nn.LayerNorm()(z))))
