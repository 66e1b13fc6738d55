"""T5 self-attention as pure jax functions over a params dict.

T5 does NOT scale the dot product (the factor is folded into the initialisation
of the query weights) and adds a learned bias per bucket of relative position.
Bias and mask are added to the logits before the softmax.
"""
import math
from functools import partial

import jax
import jax.numpy as jnp


def relative_bucket(rel, bidirectional=True, num_buckets=32, max_distance=128):
    """rel = memory position - query position"""
    out = 0
    if bidirectional:
        num_buckets //= 2
        out = out + (rel > 0).astype(jnp.int32) * num_buckets
        rel = jnp.abs(rel)
    else:
        rel = -jnp.minimum(rel, 0)
    max_exact = num_buckets // 2
    ratio = jnp.log(jnp.maximum(rel, 1) / max_exact) / math.log(max_distance / max_exact)
    large = max_exact + (ratio * (num_buckets - max_exact)).astype(jnp.int32)
    large = jnp.minimum(large, num_buckets - 1)
    return out + jnp.where(rel < max_exact, rel, large)


def rms_norm(x, scale, eps=1e-6):
    x32 = x.astype(jnp.float32)
    return (x32 * jax.lax.rsqrt(jnp.mean(x32 ** 2, -1, keepdims=True) + eps)).astype(x.dtype) * scale


def init(key, d_model, n_heads, d_kv, num_buckets=32):
    ks = jax.random.split(key, 5)
    inner = n_heads * d_kv
    return {
        "q": jax.random.normal(ks[0], (d_model, n_heads, d_kv)) * (d_model * d_kv) ** -0.5,
        "k": jax.random.normal(ks[1], (d_model, n_heads, d_kv)) * d_model ** -0.5,
        "v": jax.random.normal(ks[2], (d_model, n_heads, d_kv)) * d_model ** -0.5,
        "o": jax.random.normal(ks[3], (n_heads, d_kv, d_model)) * inner ** -0.5,
        "rel_bias": jax.random.normal(ks[4], (num_buckets, n_heads)) * 0.5,
        "norm": jnp.ones((d_model,)),
    }


@partial(jax.jit, static_argnames=("bidirectional",))
def self_attention(params, x, mask, bidirectional=True):
    """x [B, L, d_model], mask [B, L] with 1 on tokens.  Returns x + attention(norm(x))."""
    h = rms_norm(x, params["norm"])
    q = jnp.einsum("bld,dhk->blhk", h, params["q"])
    k = jnp.einsum("bld,dhk->blhk", h, params["k"])
    v = jnp.einsum("bld,dhk->blhk", h, params["v"])

    logits = jnp.einsum("bqhk,bmhk->bhqm", q, k)
    pos = jnp.arange(x.shape[1])
    rel = pos[None, :] - pos[:, None]
    bias = params["rel_bias"][relative_bucket(rel, bidirectional, params["rel_bias"].shape[0])]
    logits = logits + jnp.transpose(bias, (2, 0, 1))[None]

    visible = mask[:, None, None, :] > 0
    if not bidirectional:
        visible = visible & (rel <= 0)[None, None]
    logits = jnp.where(visible, logits, -1e9)
    weights = jax.nn.softmax(logits.astype(jnp.float32), axis=-1).astype(x.dtype)
    ctx = jnp.einsum("bhqm,bmhk->bqhk", weights, v)
    return x + jnp.einsum("bqhk,hkd->bqd", ctx, params["o"])
