"""Perceiver encoder for 12-lead ECGs, flax.linen.

A small set of learned latents reads the (long, padded) recording by cross
attention, then the latents talk to each other. Output size does not depend on
the length of the recording.
"""
from typing import Optional

import flax.linen as nn
import jax
import jax.numpy as jnp


class Attend(nn.Module):
    heads: int = 4
    head_dim: int = 8

    @nn.compact
    def __call__(self, x_q, x_kv, keep=None):
        """keep: [B, Lk] bool, True = key takes part. No key at all -> zeros."""
        inner = self.heads * self.head_dim
        dense = lambda name: nn.DenseGeneral((self.heads, self.head_dim), use_bias=False, name=name)
        q, k, v = dense("q")(x_q), dense("k")(x_kv), dense("v")(x_kv)      # B, L, H, D
        s = jnp.einsum("bqhd,bkhd->bhqk", q, k) * self.head_dim ** -0.5
        if keep is not None:
            keep = keep[:, None, None, :]
            s = jnp.where(keep, s, jnp.finfo(s.dtype).min)
        w = jax.nn.softmax(s, axis=-1)
        if keep is not None:
            w = jnp.where(keep, w, 0.0)
        o = jnp.einsum("bhqk,bkhd->bqhd", w, v)
        return nn.Dense(x_q.shape[-1], name="o")(o.reshape(o.shape[:2] + (inner,)))


class Mlp(nn.Module):
    @nn.compact
    def __call__(self, x):
        h = nn.gelu(nn.Dense(2 * x.shape[-1])(nn.LayerNorm()(x)))
        return nn.Dense(x.shape[-1])(h)


class EcgPerceiver(nn.Module):
    n_latents: int = 6
    width: int = 32
    depth: int = 2
    heads: int = 4

    @nn.compact
    def __call__(self, ecg: jax.Array, n_samples: Optional[jax.Array] = None) -> jax.Array:
        """ecg: [B, T, leads]; n_samples: [B] valid samples. Returns latents [B, n_latents, width]."""
        b, t, _ = ecg.shape
        keep = None if n_samples is None else jnp.arange(t)[None, :] < n_samples[:, None]
        pos = self.param("pos", nn.initializers.normal(0.02), (t, self.width))
        x = nn.LayerNorm()(nn.Dense(self.width)(ecg) + pos)

        lat = self.param("latents", nn.initializers.normal(0.5), (self.n_latents, self.width))
        lat = jnp.broadcast_to(lat, (b,) + lat.shape)
        hd = self.width // self.heads
        lat = lat + Attend(self.heads, hd, name="read")(nn.LayerNorm()(lat), x, keep)
        lat = lat + Mlp()(lat)
        for i in range(self.depth):
            n = nn.LayerNorm()(lat)
            lat = lat + Attend(self.heads, hd, name=f"self_{i}")(n, n)
            lat = lat + Mlp()(lat)
        return nn.LayerNorm()(lat)
