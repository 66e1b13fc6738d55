"""Perceiver-style resampler: a variable number of frame features -> n_latents tokens."""
from typing import Optional

import flax.linen as nn
import jax
import jax.numpy as jnp


class FeedForward(nn.Module):
    mult: int = 4

    @nn.compact
    def __call__(self, x):
        d = x.shape[-1]
        x = nn.LayerNorm()(x)
        x = nn.Dense(d * self.mult, use_bias=False)(x)
        return nn.Dense(d, use_bias=False)(nn.gelu(x))


class LatentAttention(nn.Module):
    """Latents look at the media features and at each other (keys = media ++ latents)."""

    n_heads: int = 8
    head_dim: int = 64

    @nn.compact
    def __call__(self, latents, media, media_valid: Optional[jnp.ndarray] = None):
        """
        latents      (batch, n, d)
        media        (batch, m, d)
        media_valid  (batch, m) bool, True where a frame feature exists
        """
        b, n, d = latents.shape
        inner = self.n_heads * self.head_dim
        media = nn.LayerNorm(name="norm_media")(media)
        latents = nn.LayerNorm(name="norm_latents")(latents)
        context = jnp.concatenate([media, latents], axis=1)

        q = nn.Dense(inner, use_bias=False, name="to_q")(latents)
        kv = nn.Dense(2 * inner, use_bias=False, name="to_kv")(context)
        k, v = jnp.split(kv, 2, axis=-1)

        q = q.reshape(b, n, self.n_heads, self.head_dim) * self.head_dim ** -0.5
        k = k.reshape(b, -1, self.n_heads, self.head_dim)
        v = v.reshape(b, -1, self.n_heads, self.head_dim)

        sim = jnp.einsum("bnhd,bmhd->bhnm", q, k)
        if media_valid is not None:
            # the latents are always there, so that no row is ever empty
            valid = jnp.concatenate([media_valid, jnp.ones((b, n), dtype=bool)], axis=1)
            sim = jnp.where(valid[:, None, None, :], sim, -jnp.inf)
        sim = sim - jax.lax.stop_gradient(sim.max(axis=-1, keepdims=True))
        attn = nn.softmax(sim, axis=-1)
        out = jnp.einsum("bhnm,bmhd->bnhd", attn, v).reshape(b, n, inner)
        return nn.Dense(d, use_bias=False, name="to_out")(out)


class FrameResampler(nn.Module):
    n_latents: int = 64
    depth: int = 2
    n_heads: int = 8
    head_dim: int = 64
    max_frames: int = 16

    @nn.compact
    def __call__(self, frames, n_frames=None):
        """frames (batch, t, patches, d), n_frames (batch,) -> (batch, n_latents, d)"""
        b, t, p, d = frames.shape
        time_emb = self.param("time_emb", nn.initializers.normal(0.02), (self.max_frames, 1, d))
        frames = frames + time_emb[:t]
        media = frames.reshape(b, t * p, d)
        valid = None
        if n_frames is not None:
            valid = jnp.repeat(jnp.arange(t)[None, :] < n_frames[:, None], p, axis=1)
        x = self.param("latents", nn.initializers.normal(0.02), (self.n_latents, d))
        x = jnp.broadcast_to(x, (b, self.n_latents, d))
        for i in range(self.depth):
            x = x + LatentAttention(self.n_heads, self.head_dim, name=f"attn_{i}")(x, media, valid)
            x = x + FeedForward(name=f"ff_{i}")(x)
        return nn.LayerNorm(name="norm_out")(x)
