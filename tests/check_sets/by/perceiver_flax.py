"""Reproduction of Perceiver (Jaegle et al. 2021) in flax.linen: the cross-attend.

A small learned array of latents reads a long input.  `input_mask` is True where
the input is real; the latents are never masked.  Queries, keys and values are
projected to `heads * head_dim`, whatever the widths of latents and input are.
"""
from typing import Any, Optional

import flax.linen as nn
import jax
import jax.numpy as jnp


class CrossAttend(nn.Module):
    heads: int = 2
    head_dim: int = 8
    widening: int = 2
    dtype: Any = jnp.float32

    @nn.compact
    def __call__(self, latents, inputs, input_mask: Optional[jax.Array] = None):
        width = latents.shape[-1]
        x = nn.LayerNorm(name="ln_latents")(latents)
        y = nn.LayerNorm(name="ln_inputs")(inputs)

        def proj(name, z):
            return nn.DenseGeneral(
                (self.heads, self.head_dim), use_bias=False, dtype=self.dtype, name=name
            )(z)

        q, k, v = proj("q", x), proj("k", y), proj("v", y)
        logits = jnp.einsum("...qhd,...khd->...hqk", q, k) / jnp.sqrt(self.head_dim)
        if input_mask is not None:
            keep = input_mask[..., None, None, :]
            logits = jnp.where(keep, logits, jnp.finfo(logits.dtype).min)
        weights = jax.nn.softmax(logits.astype(jnp.float32), axis=-1).astype(self.dtype)
        z = jnp.einsum("...hqk,...khd->...qhd", weights, v)
        z = nn.DenseGeneral(width, axis=(-2, -1), name="out")(z)

        latents = latents + z
        h = nn.LayerNorm(name="ln_mlp")(latents)
        h = nn.gelu(nn.Dense(self.widening * width, name="fc1")(h))
        return latents + nn.Dense(width, name="fc2")(h)


class PerceiverReader(nn.Module):
    """inputs [B, M, C] -> [B, num_latents, latent_dim]"""

    num_latents: int = 5
    latent_dim: int = 12
    rounds: int = 2

    @nn.compact
    def __call__(self, inputs, input_mask=None):
        init = nn.initializers.normal(0.5)
        lat = self.param("latents", init, (self.num_latents, self.latent_dim))
        lat = jnp.broadcast_to(lat, (inputs.shape[0], *lat.shape))
        for i in range(self.rounds):
            lat = CrossAttend(name=f"cross_{i}")(lat, inputs, input_mask)
        return lat


if __name__ == "__main__":
    m = PerceiverReader()
    x = jax.random.normal(jax.random.PRNGKey(1), (2, 9, 6))
    params = m.init(jax.random.PRNGKey(0), x)
    print(m.apply(params, x).shape)
