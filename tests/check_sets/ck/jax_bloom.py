"""BLOOM's attention (ALiBi, Press et al. 2022) as pure JAX functions."""
import math

import jax
import jax.numpy as jnp


def alibi_slopes(n_heads):
    """The geometric series of the paper; n_heads must be a power of two."""
    assert math.log2(n_heads).is_integer()
    return 2.0 ** (-8.0 * jnp.arange(n_heads) / n_heads)


def alibi_bias(n_heads, length):
    # (n_heads, query, key): 0 on the diagonal, more and more negative into the past
    distance = jnp.arange(length)[None, :] - jnp.arange(length)[:, None]
    return alibi_slopes(n_heads)[:, None, None] * jnp.minimum(distance, 0)


def init(key, dim=32):
    k1, k2 = jax.random.split(key)
    return {
        "query_key_value": jax.random.normal(k1, (dim, 3 * dim)) / math.sqrt(dim),
        "dense": jax.random.normal(k2, (dim, dim)) / math.sqrt(dim),
    }


def bloom_attention(params, x, n_heads=4):
    """
    Causal self-attention, x (B, T, dim) -> (B, T, dim).

    query_key_value packs the heads outermost: (n_heads, 3, head_dim).
    """
    B, T, C = x.shape
    d = C // n_heads
    fused = (x @ params["query_key_value"]).reshape(B, T, n_heads, 3, d)
    q, k, v = fused[..., 0, :], fused[..., 1, :], fused[..., 2, :]
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / math.sqrt(d)
    scores = scores + alibi_bias(n_heads, T)[None]
    causal = jnp.tril(jnp.ones((T, T), dtype=bool))
    scores = jnp.where(causal, scores, jnp.finfo(scores.dtype).min)
    probs = jax.nn.softmax(scores, axis=-1)
    ctx = jnp.einsum("bhqk,bkhd->bqhd", probs, v).reshape(B, T, C)
    return ctx @ params["dense"]
