"""Perceiver resampler (Flamingo) in Flax linen: a video of any length -> a fixed number of tokens."""
from typing import Optional

import flax.linen as nn
import jax.numpy as jnp

Array = jnp.ndarray


class ResamplerAttention(nn.Module):
    """The latents query [media ; latents].

    media_mask: (B, M) bool, True = this frame token is real.  Latents are always visible.
    """

    dim: int
    heads: int = 4
    head_dim: int = 8
    dtype: jnp.dtype = jnp.float32

    @nn.compact
    def __call__(self, media: Array, latents: Array, media_mask: Optional[Array] = None) -> Array:
        media = nn.LayerNorm(name="norm_media")(media)
        latents = nn.LayerNorm(name="norm_latents")(latents)
        B, N, _ = latents.shape
        inner = self.heads * self.head_dim

        q = nn.Dense(inner, use_bias=False, dtype=self.dtype, name="to_q")(latents)
        kv_in = jnp.concatenate([media, latents], axis=1)
        kv = nn.Dense(2 * inner, use_bias=False, dtype=self.dtype, name="to_kv")(kv_in)
        k, v = jnp.split(kv, 2, axis=-1)

        q = q.reshape(B, N, self.heads, self.head_dim) * self.head_dim ** -0.5
        k = k.reshape(B, -1, self.heads, self.head_dim)
        v = v.reshape(B, -1, self.heads, self.head_dim)

        sim = jnp.einsum("bnhd,bmhd->bhnm", q, k).astype(jnp.float32)
        if media_mask is not None:
            keep = jnp.concatenate([media_mask, jnp.ones((B, N), dtype=bool)], axis=1)
            sim = jnp.where(keep[:, None, None, :], sim, jnp.finfo(jnp.float32).min)
        attn = nn.softmax(sim, axis=-1).astype(self.dtype)
        out = jnp.einsum("bhnm,bmhd->bnhd", attn, v).reshape(B, N, inner)
        return nn.Dense(self.dim, use_bias=False, dtype=self.dtype, name="to_out")(out)


class FeedForward(nn.Module):
    dim: int
    mult: int = 4

    @nn.compact
    def __call__(self, x):
        x = nn.LayerNorm()(x)
        x = nn.gelu(nn.Dense(self.dim * self.mult, use_bias=False)(x))
        return nn.Dense(self.dim, use_bias=False)(x)


class PerceiverResampler(nn.Module):
    dim: int
    depth: int = 2
    num_latents: int = 6
    max_frames: int = 16

    @nn.compact
    def __call__(self, x: Array, mask: Optional[Array] = None) -> Array:
        # x (B, frames, tokens, dim), mask (B, frames)
        B, T, S, D = x.shape
        t_emb = self.param("frame_embed", nn.initializers.normal(0.02), (self.max_frames, D))
        x = (x + t_emb[None, :T, None]).reshape(B, T * S, D)
        token_mask = None if mask is None else jnp.repeat(mask, S, axis=1)
        lat = self.param("latents", nn.initializers.normal(0.02), (self.num_latents, D))
        lat = jnp.broadcast_to(lat[None], (B,) + lat.shape)
        for i in range(self.depth):
            lat = lat + ResamplerAttention(self.dim, name=f"attn_{i}")(x, lat, token_mask)
            lat = lat + FeedForward(self.dim, name=f"ff_{i}")(lat)
        return nn.LayerNorm(name="norm")(lat)
