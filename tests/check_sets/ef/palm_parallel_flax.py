"""Parallel transformer block for the small code model (flax.linen).

    y = x + Attn(LN(x)) + MLP(LN(x))

One LayerNorm feeds both branches. Attention is multi-query: ``num_heads``
query heads, a single key/value head. It is causal, and logits are scaled by
1/sqrt(head_dim).

Shapes: x (batch, time, features); real (batch, time) bool, True = real token,
sequences are padded on the right, and the first token is always real.
"""
from typing import Optional

import flax.linen as nn
import jax
import jax.numpy as jnp


class ParallelBlock(nn.Module):
    num_heads: int = 4
    head_dim: int = 8
    mlp_ratio: int = 2

    @nn.compact
    def __call__(self, x: jax.Array, real: Optional[jax.Array] = None) -> jax.Array:
        b, t, f = x.shape
        h, d = self.num_heads, self.head_dim
        hidden = self.mlp_ratio * f
        y = nn.LayerNorm(name="ln")(x)
        # one big matmul, cut afterwards: [queries | key | value | mlp]
        fused = nn.Dense(h * d + 2 * d + hidden, use_bias=False, name="fused_in")(y)
        q, k, v, up = jnp.split(fused, [h * d, h * d + d, h * d + 2 * d], axis=-1)
        q = q.reshape(b, t, h, d)

        logits = jnp.einsum("bqhd,bkd->bhqk", q, k).astype(jnp.float32)
        logits = logits * jax.lax.rsqrt(jnp.float32(d))
        steps = jnp.arange(t)
        allowed = (steps[None, :] <= steps[:, None])[None, None]
        if real is not None:
            allowed = allowed & real[:, None, None, :]
        logits = jnp.where(allowed, logits, -jnp.inf)
        probs = jax.nn.softmax(logits, axis=-1).astype(v.dtype)
        mixed = jnp.einsum("bhqk,bkd->bqhd", probs, v).reshape(b, t, h * d)

        out = jnp.concatenate([mixed, nn.gelu(up)], axis=-1)
        return x + nn.Dense(f, use_bias=False, name="fused_out")(out)
