"""Encoder-decoder building block in Flax: one decoder block.

DecoderBlock(num_heads, mlp_dim)(y, memory, y_mask, memory_mask)
    y            (batch, Lt, C)   target embeddings, padded on the right
    memory       (batch, Ls, C)   output of the encoder
    y_mask       (batch, Lt) bool, True = real target token
    memory_mask  (batch, Ls) bool, True = real source token, one at least
    ->           (batch, Lt, C)
Pre-norm: causal self-attention (a token sees itself and earlier real tokens),
cross-attention into the memory, MLP; each with a residual connection.  Heads
have C // num_heads channels and the scores are divided by its square root.
"""
import flax.linen as nn
import jax
import jax.numpy as jnp


class Attend(nn.Module):
    num_heads: int

    @nn.compact
    def __call__(self, q_in, kv_in, allowed):
        """allowed: bool, broadcastable to (batch, 1, Lq, Lk), True = may be read."""
        C = q_in.shape[-1]
        d = C // self.num_heads
        proj = lambda name: nn.DenseGeneral((self.num_heads, d), name=name)
        q = proj("query")(q_in)
        k = proj("key")(kv_in)
        v = proj("value")(kv_in)
        s = jnp.einsum("bqhd,bkhd->bhqk", q, k) / jnp.sqrt(jnp.asarray(d, q.dtype))
        s = jnp.where(allowed, s, jnp.finfo(s.dtype).min)
        w = jax.nn.softmax(s, axis=-1)
        y = jnp.einsum("bhqk,bkhd->bqhd", w, v)
        return nn.DenseGeneral(C, axis=(-2, -1), name="out")(y)


class DecoderBlock(nn.Module):
    num_heads: int = 4
    mlp_dim: int = 128

    @nn.compact
    def __call__(self, y, memory, y_mask, memory_mask):
        L = y.shape[1]
        causal = jnp.tril(jnp.ones((L, L), dtype=bool))
        self_ok = causal[None, None] & y_mask[:, None, None, :]
        cross_ok = memory_mask[:, None, None, :]

        h = nn.LayerNorm()(y)
        y = y + Attend(self.num_heads, name="self_attn")(h, h, self_ok)
        h = nn.LayerNorm()(y)
        y = y + Attend(self.num_heads, name="cross_attn")(h, memory, cross_ok)
        h = nn.LayerNorm()(y)
        h = nn.Dense(self.mlp_dim)(h)
        return y + nn.Dense(y.shape[-1])(nn.gelu(h))
