"""Perceiver resampler for a video-language model (Flamingo), Flax.

A variable number of frames, each with P patch vectors, becomes R latent tokens.
In every layer the latents attend to the concatenation [patches, latents], so a
latent always sees something, even if all the frames of a clip are missing.
``frame_ok`` [B, T] tells which frames exist; a time embedding is added to the
patches.
"""
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp


class ResamplerAttention(nn.Module):
    heads: int = 2
    head_dim: int = 8

    @nn.compact
    def __call__(self, media, latents, media_ok):
        width = latents.shape[-1]
        media = nn.LayerNorm(name="norm_media")(media)
        latents = nn.LayerNorm(name="norm_latents")(latents)
        kv_in = jnp.concatenate([media, latents], axis=1)
        ok = jnp.concatenate([media_ok, jnp.ones(latents.shape[:2], bool)], axis=1)

        feat = (self.heads, self.head_dim)
        q = nn.DenseGeneral(feat, use_bias=False, name="q")(latents)
        k = nn.DenseGeneral(feat, use_bias=False, name="k")(kv_in)
        v = nn.DenseGeneral(feat, use_bias=False, name="v")(kv_in)

        sim = jnp.einsum("brhd,bmhd->bhrm", q * self.head_dim ** -0.5, k)
        sim = jnp.where(ok[:, None, None, :], sim, jnp.finfo(sim.dtype).min)
        attn = nn.softmax(sim, axis=-1)
        out = jnp.einsum("bhrm,bmhd->brhd", attn, v)
        return nn.DenseGeneral(width, axis=(-2, -1), use_bias=False, name="out")(out)


class VideoResampler(nn.Module):
    latents: int = 5
    depth: int = 2
    heads: int = 2
    head_dim: int = 8
    max_frames: int = 16

    @nn.compact
    def __call__(self, video: Any, frame_ok: Any):
        """video [B, T, P, C], frame_ok [B, T] bool -> [B, latents, C]"""
        b, t, p, c = video.shape
        time = self.param("time", nn.initializers.normal(0.5), (self.max_frames, c))
        query = self.param("latents", nn.initializers.normal(1.0), (self.latents, c))
        media = (video + time[:t, None]).reshape(b, t * p, c)
        media_ok = jnp.repeat(frame_ok, p, axis=1)

        x = jnp.broadcast_to(query, (b, self.latents, c))
        for i in range(self.depth):
            x = x + ResamplerAttention(self.heads, self.head_dim, name=f"attn_{i}")(media, x, media_ok)
            h = nn.LayerNorm(name=f"norm_ff_{i}")(x)
            h = nn.Dense(2 * c, name=f"ff_in_{i}")(h)
            x = x + nn.Dense(c, name=f"ff_out_{i}")(nn.gelu(h))
        return nn.LayerNorm(name="norm_out")(x)


if __name__ == "__main__":
    net = VideoResampler()
    clip = jnp.ones((2, 3, 4, 16))
    ok = jnp.array([[True, True, True], [True, False, False]])
    params = net.init(jax.random.PRNGKey(0), clip, ok)
    print(net.apply(params, clip, ok).shape)
