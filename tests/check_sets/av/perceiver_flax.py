"""Perceiver encoder over event streams, Flax linen."""
from typing import Any, Optional

import flax.linen as nn
import jax
import jax.numpy as jnp

Dtype = Any


class LatentReader(nn.Module):
    """Latents (queries) read from inputs (keys, values)."""
    heads: int
    head_dim: int
    dropout: float = 0.0
    dtype: Dtype = jnp.float32

    @nn.compact
    def __call__(self, latents, inputs, pad: Optional[jax.Array] = None, *, train: bool = False):
        """latents [B, N, C]; inputs [B, M, D]; pad [B, M], 1 for padding and 0 for data."""
        lat = nn.LayerNorm(name="norm_latent")(latents)
        inp = nn.LayerNorm(name="norm_input")(inputs)
        feats = (self.heads, self.head_dim)
        q = nn.DenseGeneral(feats, use_bias=False, dtype=self.dtype, name="to_q")(lat)
        k = nn.DenseGeneral(feats, use_bias=False, dtype=self.dtype, name="to_k")(inp)
        v = nn.DenseGeneral(feats, use_bias=False, dtype=self.dtype, name="to_v")(inp)

        sim = jnp.einsum("bnhd,bmhd->bhnm", q, k) / jnp.sqrt(jnp.asarray(self.head_dim, q.dtype))
        sim = sim.astype(jnp.float32)
        if pad is not None:
            sim = jnp.where(pad[:, None, None, :].astype(bool), jnp.finfo(jnp.float32).min, sim)
        attn = jax.nn.softmax(sim, axis=-1).astype(self.dtype)
        attn = nn.Dropout(self.dropout)(attn, deterministic=not train)
        out = jnp.einsum("bhnm,bmhd->bnhd", attn, v)
        return nn.DenseGeneral(latents.shape[-1], axis=(-2, -1), dtype=self.dtype, name="to_out")(out)


class FeedForward(nn.Module):
    mult: int = 2

    @nn.compact
    def __call__(self, x):
        h = nn.LayerNorm()(x)
        h = nn.Dense(x.shape[-1] * self.mult)(h)
        return nn.Dense(x.shape[-1])(nn.gelu(h))


class EventPerceiver(nn.Module):
    n_latents: int = 6
    dim: int = 16
    heads: int = 2
    rounds: int = 2

    @nn.compact
    def __call__(self, events, pad=None, train: bool = False):
        base = self.param("latents", nn.initializers.normal(0.02), (self.n_latents, self.dim))
        x = jnp.broadcast_to(base, (events.shape[0],) + base.shape)
        for r in range(self.rounds):
            x = x + LatentReader(self.heads, self.dim // self.heads, name=f"read_{r}")(x, events, pad, train=train)
            x = x + FeedForward(name=f"ff_{r}")(x)
        return x
