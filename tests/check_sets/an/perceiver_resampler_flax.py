"""Perceiver resampler for the vision tower (Flax linen)."""
from typing import Any, Optional

import flax.linen as nn
import jax.numpy as jnp


class FeedForward(nn.Module):
    mult: int = 4

    @nn.compact
    def __call__(self, x):
        d = x.shape[-1]
        x = nn.LayerNorm()(x)
        x = nn.Dense(d * self.mult, use_bias=False)(x)
        return nn.Dense(d, use_bias=False)(nn.gelu(x))


class ResamplerAttention(nn.Module):
    """Latents look at [media ; latents].

    media_valid: bool [batch, n_media], True where the frame patch exists.
    """
    heads: int
    dim_head: int
    dtype: Any = jnp.float32

    @nn.compact
    def __call__(self, media, latents, media_valid: Optional[jnp.ndarray] = None):
        inner = self.heads * self.dim_head
        media = nn.LayerNorm(name="norm_media")(media)
        latents = nn.LayerNorm(name="norm_latents")(latents)
        q = nn.Dense(inner, use_bias=False, name="to_q")(latents)
        kv_in = jnp.concatenate([media, latents], axis=-2)
        kv = nn.Dense(2 * inner, use_bias=False, name="to_kv")(kv_in)
        k, v = jnp.split(kv, 2, axis=-1)

        def heads_last(t):
            return t.reshape(*t.shape[:-1], self.heads, self.dim_head)

        q, k, v = heads_last(q), heads_last(k), heads_last(v)
        q = q * self.dim_head ** -0.5
        sim = jnp.einsum("...ihd,...jhd->...hij", q, k).astype(jnp.float32)
        if media_valid is not None:
            lat_ok = jnp.ones(latents.shape[:-1], dtype=bool)
            ok = jnp.concatenate([media_valid, lat_ok], axis=-1)
            sim = jnp.where(ok[..., None, None, :], sim, jnp.finfo(jnp.float32).min)
        attn = nn.softmax(sim, axis=-1).astype(self.dtype)
        out = jnp.einsum("...hij,...jhd->...ihd", attn, v)
        out = out.reshape(*out.shape[:-2], inner)
        return nn.Dense(latents.shape[-1], use_bias=False, name="to_out")(out)


class Resampler(nn.Module):
    depth: int = 2
    num_latents: int = 8
    heads: int = 4
    dim_head: int = 16

    @nn.compact
    def __call__(self, media, media_valid=None):
        b, _, d = media.shape
        lat = self.param("latents", nn.initializers.normal(0.02), (self.num_latents, d))
        x = jnp.broadcast_to(lat[None], (b, self.num_latents, d))
        for i in range(self.depth):
            x = x + ResamplerAttention(self.heads, self.dim_head, name=f"attn_{i}")(media, x, media_valid)
            x = x + FeedForward(name=f"ff_{i}")(x)
        return nn.LayerNorm()(x)
