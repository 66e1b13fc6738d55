"""Gemma-2-style attention in flax, with logit soft-capping.

    logits = cap * tanh( (q . k / sqrt(head_dim)) / cap ),   cap = 5 by default (small model)
    hidden positions get no weight at all

Causal over the window, plus an optional `valid` mask for the padding.
"""
from typing import Optional

import flax.linen as nn
import jax
import jax.numpy as jnp


class CappedAttention(nn.Module):
    features: int = 32
    num_heads: int = 4
    cap: float = 5.0

    def setup(self):
        head_dim = self.features // self.num_heads
        self.q_proj = nn.DenseGeneral((self.num_heads, head_dim), use_bias=False)
        self.k_proj = nn.DenseGeneral((self.num_heads, head_dim), use_bias=False)
        self.v_proj = nn.DenseGeneral((self.num_heads, head_dim), use_bias=False)
        self.o_proj = nn.DenseGeneral(self.features, axis=(-2, -1), use_bias=False)

    def __call__(self, x: jax.Array, valid: Optional[jax.Array] = None) -> jax.Array:
        """x [B, T, features]; valid bool [B, T], True = real token (right padded)."""
        T = x.shape[1]
        q, k, v = self.q_proj(x), self.k_proj(x), self.v_proj(x)      # [B, T, H, d]

        mask = jnp.tril(jnp.ones((T, T), dtype=bool))[None, None]
        if valid is not None:
            mask = mask & valid[:, None, None, :]

        logits = jnp.einsum("bqhd,bkhd->bhqk", q, k)
        logits = jnp.where(mask, logits, jnp.finfo(logits.dtype).min)
        logits = self.cap * jnp.tanh(logits / self.cap)
        probs = jax.nn.softmax(logits.astype(jnp.float32), axis=-1).astype(v.dtype)
        out = jnp.einsum("bhqk,bkhd->bqhd", probs, v)
        return self.o_proj(out)


class GemmaBlock(nn.Module):
    features: int = 32
    num_heads: int = 4
    cap: float = 5.0

    @nn.compact
    def __call__(self, x, valid=None):
        h = nn.RMSNorm()(x)
        h = CappedAttention(self.features, self.num_heads, self.cap)(h, valid)
        x = x + nn.RMSNorm()(h)
        h = nn.RMSNorm()(x)
        gate = nn.gelu(nn.Dense(4 * self.features, use_bias=False)(h))
        up = nn.Dense(4 * self.features, use_bias=False)(h)
        h = nn.Dense(self.features, use_bias=False)(gate * up)
        return x + nn.RMSNorm()(h)


if __name__ == "__main__":
    x = jax.random.normal(jax.random.PRNGKey(0), (2, 7, 32))
    net = GemmaBlock()
    params = net.init(jax.random.PRNGKey(1), x)
    print(net.apply(params, x).shape)
