"""Perceiver encoder step in flax.linen: a learned latent array reads from a byte array."""
from typing import Optional

import flax.linen as nn
import jax
import jax.numpy as jnp


class CrossAttention(nn.Module):
    """latents (B, N, D) attend to inputs (B, M, C).

    input_mask: optional (B, M), True = valid. If an example has no valid input at all the
    attention adds nothing (zeros before the output projection).
    """
    num_heads: int = 4
    qk_channels: int = 32
    v_channels: int = 24
    dropout: float = 0.0

    @nn.compact
    def __call__(self, latents, inputs, input_mask: Optional[jax.Array] = None, deterministic: bool = True):
        h = self.num_heads
        qd, vd = self.qk_channels // h, self.v_channels // h
        x = nn.LayerNorm(name="ln_q")(latents)
        z = nn.LayerNorm(name="ln_kv")(inputs)
        q = nn.DenseGeneral((h, qd), name="q")(x)
        k = nn.DenseGeneral((h, qd), name="k")(z)
        v = nn.DenseGeneral((h, vd), name="v")(z)

        logits = jnp.einsum("bnhd,bmhd->bhnm", q / jnp.sqrt(qd), k)
        if input_mask is None:
            w = jax.nn.softmax(logits, axis=-1)
        else:
            m = input_mask[:, None, None, :]
            w = jax.nn.softmax(jnp.where(m, logits, jnp.finfo(logits.dtype).min), axis=-1)
            w = jnp.where(m, w, 0.0)
        w = nn.Dropout(self.dropout)(w, deterministic=deterministic)
        o = jnp.einsum("bhnm,bmhe->bnhe", w, v)
        return nn.DenseGeneral(latents.shape[-1], axis=(-2, -1), name="o")(o)


class PerceiverStep(nn.Module):
    num_latents: int = 6
    latent_dim: int = 20
    widening: int = 2

    @nn.compact
    def __call__(self, inputs, input_mask=None, deterministic: bool = True):
        lat = self.param("latents", nn.initializers.truncated_normal(0.02), (self.num_latents, self.latent_dim))
        lat = jnp.broadcast_to(lat, (inputs.shape[0],) + lat.shape)
        lat = lat + CrossAttention()(lat, inputs, input_mask, deterministic)
        y = nn.LayerNorm()(lat)
        y = nn.Dense(self.widening * self.latent_dim)(y)
        return lat + nn.Dense(self.latent_dim)(nn.gelu(y))
