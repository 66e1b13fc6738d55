"""Perceiver encoder over LiDAR points (flax.linen). Latents query the point cloud.

points : [B, N, C]      valid : bool [B, N], True for returns, False for filler rows
"""
from typing import Optional

import flax.linen as nn
import jax
import jax.numpy as jnp


def fourier_features(xyz, bands: int = 4):
    freqs = 2.0 ** jnp.arange(bands) * jnp.pi
    ang = xyz[..., None] * freqs
    enc = jnp.concatenate([jnp.sin(ang), jnp.cos(ang)], axis=-1)
    return jnp.concatenate([xyz, enc.reshape(*xyz.shape[:-1], -1)], axis=-1)


class Attend(nn.Module):
    heads: int
    head_dim: int
    out_dim: int

    @nn.compact
    def __call__(self, inputs_q, inputs_kv, valid: Optional[jnp.ndarray] = None):
        proj = lambda name: nn.DenseGeneral((self.heads, self.head_dim), use_bias=False, name=name)
        q = proj("query")(inputs_q)
        k = proj("key")(inputs_kv)
        v = proj("value")(inputs_kv)
        logits = jnp.einsum("bqhd,bkhd->bhqk", q, k) / jnp.sqrt(self.head_dim)
        if valid is not None:
            big_neg = jnp.finfo(logits.dtype).min
            logits = jnp.where(valid[:, None, None, :], logits, big_neg)
        probs = jax.nn.softmax(logits, axis=-1)
        out = jnp.einsum("bhqk,bkhd->bqhd", probs, v)
        return nn.DenseGeneral(self.out_dim, axis=(-2, -1), name="out")(out)


class MlpBlock(nn.Module):
    widening: int = 4

    @nn.compact
    def __call__(self, x):
        d = x.shape[-1]
        return nn.Dense(d)(nn.gelu(nn.Dense(d * self.widening)(nn.LayerNorm()(x))))


class PerceiverEncoder(nn.Module):
    num_latents: int = 16
    latent_dim: int = 32
    heads: int = 4
    depth: int = 2

    @nn.compact
    def __call__(self, points, valid=None):
        feats = fourier_features(points[..., :3])
        feats = jnp.concatenate([feats, points[..., 3:]], axis=-1)
        latents = self.param("latents", nn.initializers.normal(0.02), (self.num_latents, self.latent_dim))
        z = jnp.broadcast_to(latents, (points.shape[0],) + latents.shape)
        hd = self.latent_dim // self.heads
        z = z + Attend(self.heads, hd, self.latent_dim, name="cross")(
            nn.LayerNorm()(z), nn.LayerNorm()(feats), valid
        )
        z = z + MlpBlock()(z)
        for i in range(self.depth):
            n = nn.LayerNorm()(z)
            z = z + Attend(self.heads, hd, self.latent_dim, name=f"self_{i}")(n, n)
            z = z + MlpBlock()(z)
        return z
