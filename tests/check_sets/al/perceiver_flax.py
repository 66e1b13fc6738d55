"""Perceiver (Jaegle et al. 2021) in Flax, used for our LIDAR sweeps."""
from typing import Optional

import flax.linen as nn
import jax
import jax.numpy as jnp


class MLP(nn.Module):
    widening: int = 4

    @nn.compact
    def __call__(self, x):
        d = x.shape[-1]
        h = nn.gelu(nn.Dense(self.widening * d)(x))
        return nn.Dense(d)(h)


class LatentCrossAttention(nn.Module):
    """Scaled dot-product attention: latents [B, N, D] read the input array [B, M, C].

    keep: bool [B, M], True where the input element is real.
    """
    heads: int
    head_dim: int

    @nn.compact
    def __call__(self, latents, inputs, keep: Optional[jax.Array] = None):
        lat = nn.LayerNorm(name="norm_latents")(latents)
        inp = nn.LayerNorm(name="norm_inputs")(inputs)
        proj = lambda name: nn.DenseGeneral((self.heads, self.head_dim), use_bias=False, name=name)
        q = proj("q")(lat)
        k = proj("k")(inp)
        v = proj("v")(inp)
        scale = 1.0 / jnp.sqrt(k.shape[1])
        logits = jnp.einsum("bnhd,bmhd->bhnm", q, k) * scale
        if keep is not None:
            logits = jnp.where(keep[:, None, None, :], logits, jnp.finfo(logits.dtype).min)
        weights = jax.nn.softmax(logits, axis=-1)
        out = jnp.einsum("bhnm,bmhd->bnhd", weights, v)
        return nn.DenseGeneral(latents.shape[-1], axis=(-2, -1), name="out")(out)


class PerceiverBlock(nn.Module):
    heads: int
    head_dim: int
    self_layers: int

    @nn.compact
    def __call__(self, latents, inputs, keep=None):
        latents = latents + LatentCrossAttention(self.heads, self.head_dim, name="read")(latents, inputs, keep)
        latents = latents + MLP(name="read_mlp")(nn.LayerNorm()(latents))
        for i in range(self.self_layers):
            h = nn.LayerNorm()(latents)
            latents = latents + nn.MultiHeadDotProductAttention(self.heads, name=f"self_{i}")(h, h)
            latents = latents + MLP(name=f"mlp_{i}")(nn.LayerNorm()(latents))
        return latents


class Perceiver(nn.Module):
    num_latents: int = 64
    dim: int = 128
    num_classes: int = 10
    blocks: int = 2

    @nn.compact
    def __call__(self, points, keep=None):
        z = self.param("latents", nn.initializers.normal(0.02), (self.num_latents, self.dim))
        z = jnp.broadcast_to(z, (points.shape[0],) + z.shape)
        for i in range(self.blocks):
            z = PerceiverBlock(4, self.dim // 4, 2, name=f"block_{i}")(z, points, keep)
        return nn.Dense(self.num_classes)(z.mean(1))
