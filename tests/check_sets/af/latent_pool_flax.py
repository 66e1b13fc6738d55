"""Perceiver-style pooling head for the audio tagger (flax.linen)."""
from typing import Optional

import flax.linen as nn
import jax
import jax.numpy as jnp


class LatentPool(nn.Module):
    """Reads a variable number of frames into ``num_latents`` vectors.

    frames: [B, T, C], valid: [B, T] bool (True = frame exists).
    A clip without any valid frame is read as zeros (only the output bias remains).
    """

    num_latents: int
    num_heads: int
    qk_features: int            # per head
    v_features: int             # per head
    out_features: int

    @nn.compact
    def __call__(self, frames, valid: Optional[jnp.ndarray] = None):
        H = self.num_heads
        latents = self.param(
            "latents", nn.initializers.truncated_normal(0.02), (self.num_latents, self.out_features))
        lat = nn.LayerNorm(name="ln_latents")(latents)
        x = nn.LayerNorm(name="ln_frames")(frames)

        # the query does not depend on the sample: no batch axis at all
        q = nn.DenseGeneral((H, self.qk_features), name="q")(lat)
        k = nn.DenseGeneral((H, self.qk_features), name="k")(x)
        v = nn.DenseGeneral((H, self.v_features), name="v")(x)

        logits = jnp.einsum("nhd,bthd->bthn", q, k) / jnp.sqrt(self.qk_features).astype(k.dtype)
        if valid is not None:
            gate = valid[:, :, None, None]
            peak = jnp.max(jnp.where(gate, logits, -jnp.inf), axis=1, keepdims=True)
            peak = jax.lax.stop_gradient(jnp.where(jnp.isfinite(peak), peak, 0.0))
            e = jnp.where(gate, jnp.exp(jnp.where(gate, logits - peak, 0.0)), 0.0)
            total = e.sum(axis=1, keepdims=True)
            weights = e / jnp.where(total > 0, total, 1.0)
        else:
            weights = jax.nn.softmax(logits, axis=1)
        pooled = jnp.einsum("bthn,bthv->bnhv", weights, v)
        return nn.DenseGeneral(self.out_features, axis=(-2, -1), name="out")(pooled)


class Tagger(nn.Module):
    classes: int

    @nn.compact
    def __call__(self, frames, valid=None):
        z = LatentPool(num_latents=4, num_heads=2, qk_features=8, v_features=6, out_features=24, name="pool")(
            frames, valid)
        z = z + nn.Dense(24)(nn.gelu(nn.Dense(48)(nn.LayerNorm()(z))))
        return nn.Dense(self.classes)(z.mean(axis=1))
