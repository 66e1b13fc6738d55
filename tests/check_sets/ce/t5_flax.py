"""T5 self-attention with bucketed relative positions, flax.linen.

Small port used to explain the T5 paper. Two things differ from the original
Transformer on purpose: the logits are *not* divided by sqrt(d_kv) (T5 folds that
into the initialisation of the query matrix) and positions enter only as a learned
scalar per head and per bucket of (key position - query position), added to the
logits. Projections have no biases. Softmax is done in float32.

mask: [batch, key length], 1 for tokens and 0 for padding.
"""
import math

import flax.linen as nn
import jax
import jax.numpy as jnp


def relative_bucket(rel, bidirectional, num_buckets=32, max_distance=128):
    bucket = 0
    if bidirectional:
        num_buckets //= 2
        bucket = (rel > 0).astype(jnp.int32) * num_buckets
        n = jnp.abs(rel)
    else:
        n = jnp.maximum(-rel, 0)
    exact = num_buckets // 2
    ratio = jnp.log(jnp.maximum(n, 1) / exact) / math.log(max_distance / exact)
    far = exact + (ratio * (num_buckets - exact)).astype(jnp.int32)
    far = jnp.minimum(far, num_buckets - 1)
    return bucket + jnp.where(n < exact, n, far)


class T5SelfAttention(nn.Module):
    d_model: int
    num_heads: int
    d_kv: int
    num_buckets: int = 32
    max_distance: int = 128
    causal: bool = False

    @nn.compact
    def __call__(self, x, mask=None):
        B, L, _ = x.shape
        inner = self.num_heads * self.d_kv
        q_init = nn.initializers.normal((self.d_model * self.d_kv) ** -0.5)
        kv_init = nn.initializers.normal(self.d_model ** -0.5)
        q = nn.Dense(inner, use_bias=False, kernel_init=q_init, name="q")(x)
        k = nn.Dense(inner, use_bias=False, kernel_init=kv_init, name="k")(x)
        v = nn.Dense(inner, use_bias=False, kernel_init=kv_init, name="v")(x)
        q, k, v = (t.reshape(B, L, self.num_heads, self.d_kv) for t in (q, k, v))

        table = nn.Embed(self.num_buckets, self.num_heads, name="relative_attention_bias")
        pos = jnp.arange(L)
        rel = pos[None, :] - pos[:, None]
        bias = table(relative_bucket(rel, not self.causal, self.num_buckets, self.max_distance))
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) + bias.transpose(2, 0, 1)[None]

        allowed = jnp.ones((B, 1, L, L), bool)
        if self.causal:
            allowed &= (rel <= 0)[None, None]
        if mask is not None:
            allowed &= mask.astype(bool)[:, None, None, :]
        scores = jnp.where(allowed, scores.astype(jnp.float32), jnp.finfo(jnp.float32).min)
        weights = jax.nn.softmax(scores, axis=-1).astype(v.dtype)
        out = jnp.einsum("bhqk,bkhd->bqhd", weights, v).reshape(B, L, inner)
        return nn.Dense(self.d_model, use_bias=False, kernel_init=kv_init, name="o")(out)


class T5Layer(nn.Module):
    """Pre-RMSNorm residual wrapper."""
    d_model: int = 32
    num_heads: int = 4
    d_kv: int = 8
    causal: bool = False

    @nn.compact
    def __call__(self, x, mask=None):
        attend = T5SelfAttention(self.d_model, self.num_heads, self.d_kv, causal=self.causal)
        return x + attend(nn.RMSNorm(epsilon=1e-6)(x), mask)
