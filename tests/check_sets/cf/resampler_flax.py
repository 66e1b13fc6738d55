"""Perceiver resampler: any number of visual tokens in, a fixed few latents out.

Per layer the latents ask, and the keys/values are the visual tokens *followed by
the latents themselves* (so latents also see each other).  ``frame_valid`` marks
the visual tokens that exist; the latents are always visible.
"""
from typing import Optional

import flax.linen as nn
import jax
import jax.numpy as jnp


class ResamplerAttention(nn.Module):
    heads: int = 4
    head_dim: int = 8

    @nn.compact
    def __call__(self, media, latents, valid=None):
        dim = latents.shape[-1]
        media = nn.LayerNorm(name="norm_media")(media)
        latents = nn.LayerNorm(name="norm_latents")(latents)
        context = jnp.concatenate([media, latents], axis=1)

        def proj(name):
            return nn.DenseGeneral((self.heads, self.head_dim), use_bias=False, name=name)

        q = proj("q")(latents) * self.head_dim ** -0.5
        k = proj("k")(context)
        v = proj("v")(context)

        sim = jnp.einsum("bihd,bjhd->bhij", q, k)
        if valid is not None:
            ones = jnp.ones(latents.shape[:2], dtype=bool)
            seen = jnp.concatenate([valid.astype(bool), ones], axis=1)
            sim = jnp.where(seen[:, None, None, :], sim, jnp.finfo(sim.dtype).min)
        att = jax.nn.softmax(sim, axis=-1)
        out = jnp.einsum("bhij,bjhd->bihd", att, v)
        return nn.DenseGeneral(dim, axis=(-2, -1), use_bias=False, name="out")(out)


class PerceiverResampler(nn.Module):
    num_latents: int = 6
    depth: int = 2
    heads: int = 4
    head_dim: int = 8
    ff_mult: int = 4

    @nn.compact
    def __call__(self, visual, frame_valid: Optional[jax.Array] = None):
        """visual (B, N, D), frame_valid (B, N) -> (B, num_latents, D)"""
        b, _, d = visual.shape
        init = nn.initializers.normal(1.0)
        lat = self.param("latents", init, (self.num_latents, d))
        x = jnp.broadcast_to(lat[None], (b, self.num_latents, d))
        for i in range(self.depth):
            x = x + ResamplerAttention(self.heads, self.head_dim,
                                       name=f"attn_{i}")(visual, x, frame_valid)
            h = nn.LayerNorm(name=f"ff_norm_{i}")(x)
            h = nn.gelu(nn.Dense(self.ff_mult * d, name=f"ff_up_{i}")(h))
            x = x + nn.Dense(d, name=f"ff_down_{i}")(h)
        return nn.LayerNorm(name="norm")(x)


if __name__ == "__main__":
    model = PerceiverResampler()
    vis = jax.random.normal(jax.random.PRNGKey(0), (2, 30, 32))
    variables = model.init(jax.random.PRNGKey(1), vis)
    print(model.apply(variables, vis).shape)
