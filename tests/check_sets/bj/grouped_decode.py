"""Grouped-query decode step in pure JAX, functional state.

Layouts
-------
q          [B, T, H, D]
cache k/v  [B, S, Hkv, D]    (S = capacity, sequence-major as the DMA likes it)
length     scalar int32, number of valid positions in the cache

Query head h reads kv head h // (H // Hkv).
"""
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp


class KV(NamedTuple):
    k: jax.Array
    v: jax.Array
    length: jax.Array


def empty(batch, capacity, kv_heads, dim, dtype=jnp.float32) -> KV:
    z = jnp.zeros((batch, capacity, kv_heads, dim), dtype)
    return KV(z, z, jnp.int32(0))


def append(cache: KV, k, v) -> KV:
    at = (0, cache.length, 0, 0)
    return KV(
        jax.lax.dynamic_update_slice(cache.k, k.astype(cache.k.dtype), at),
        jax.lax.dynamic_update_slice(cache.v, v.astype(cache.v.dtype), at),
        cache.length + k.shape[1],
    )


def expand_kv(x, heads):
    """[B, S, Hkv, D] -> [B, S, heads, D]."""
    b, s, hkv, d = x.shape
    group = heads // hkv
    if group == 1:
        return x
    return jnp.tile(x, (1, group, 1, 1)).reshape(b, s, heads, d)


@partial(jax.jit, static_argnames=("scale",))
def decode_attention(q, k, v, cache: KV, scale=None):
    """Append k, v [B, T, Hkv, D], attend causally, return (out, new cache)."""
    b, t, h, d = q.shape
    cache = append(cache, k, v)
    kk = expand_kv(cache.k, h)
    vv = expand_kv(cache.v, h)
    scale = d**-0.5 if scale is None else scale
    logits = jnp.einsum("bthd,bshd->bhts", q, kk, preferred_element_type=jnp.float32)
    logits = logits * scale
    q_pos = cache.length - t + jnp.arange(t)
    k_pos = jnp.arange(cache.k.shape[1])
    allowed = k_pos[None, :] <= q_pos[:, None]
    logits = jnp.where(allowed[None, None], logits, jnp.finfo(jnp.float32).min)
    probs = jax.nn.softmax(logits, axis=-1)
    out = jnp.einsum("bhts,bshd->bthd", probs.astype(vv.dtype), vv)
    return out, cache


def init_params(key, width, heads, kv_heads):
    d = width // heads
    ks = jax.random.split(key, 4)
    s = width**-0.5
    return {
        "q": jax.random.normal(ks[0], (width, heads, d)) * s,
        "k": jax.random.normal(ks[1], (width, kv_heads, d)) * s,
        "v": jax.random.normal(ks[2], (width, kv_heads, d)) * s,
        "o": jax.random.normal(ks[3], (heads, d, width)) * s,
    }


def layer_step(params, x, cache):
    """x [B, T, width]; one residual attention layer."""
    q = jnp.einsum("btw,whd->bthd", x, params["q"])
    k = jnp.einsum("btw,whd->bthd", x, params["k"])
    v = jnp.einsum("btw,whd->bthd", x, params["v"])
    out, cache = decode_attention(q, k, v, cache)
    return x + jnp.einsum("bthd,hdw->btw", out, params["o"]), cache
