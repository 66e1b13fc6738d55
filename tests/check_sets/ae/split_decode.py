"""Decode-time attention with the KV sequence split over workers (flash-decoding, pure JAX)."""
import math

import jax
import jax.numpy as jnp

LOG2E = math.log2(math.e)


def partial_attend(q, k, v):
    """q [H, D], k/v [S, H, D] -> normalised output [H, D] and log-sum-exp [H] of this shard."""
    scale = LOG2E / math.sqrt(q.shape[-1])
    s = jnp.einsum("hd,shd->hs", q, k) * scale
    m = s.max(axis=-1)
    p = jnp.exp2(s - m[:, None])
    l = p.sum(axis=-1)
    o = jnp.einsum("hs,shd->hd", p, v) / l[:, None]
    return o, m + jnp.log2(l)


def merge(outs, lses):
    """outs [W, H, D], lses [W, H]"""
    top = lses.max(axis=0, keepdims=True)
    w = jnp.exp(lses - top)
    w = w / w.sum(axis=0, keepdims=True)
    return jnp.einsum("wh,whd->hd", w, outs)


def decode_step(q, k_cache, v_cache, n_split=4):
    """Attention of one new token over the whole cache: equals softmax(qk/sqrt(D)) v.

    q [H, D], caches [S, H, D] with S divisible by n_split.
    """
    S, H, D = k_cache.shape
    ks = k_cache.reshape(n_split, S // n_split, H, D)
    vs = v_cache.reshape(n_split, S // n_split, H, D)
    outs, lses = jax.vmap(partial_attend, in_axes=(None, 0, 0))(q, ks, vs)
    return merge(outs, lses)
