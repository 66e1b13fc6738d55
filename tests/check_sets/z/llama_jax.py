"""Grouped-query attention with rotary embedding and a preallocated cache, pure functions.

Layout is (batch, length, heads, dim).  The rotation is the half-split ("rotate_half") one.
"""
import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp


class Params(NamedTuple):
    wq: jax.Array   # (C, H, D)
    wk: jax.Array   # (C, K, D)
    wv: jax.Array   # (C, K, D)
    wo: jax.Array   # (H, D, C)


class KVCache(NamedTuple):
    k: jax.Array      # (B, S, K, D)
    v: jax.Array
    length: jax.Array  # () int32, tokens already stored


def init_params(key, C=32, H=4, K=2, D=8):
    ks = jax.random.split(key, 4)
    n = lambda k, s: jax.random.normal(k, s) / jnp.sqrt(C)
    return Params(n(ks[0], (C, H, D)), n(ks[1], (C, K, D)), n(ks[2], (C, K, D)), n(ks[3], (H, D, C)))


def init_cache(B, S, K, D, dtype=jnp.float32):
    z = jnp.zeros((B, S, K, D), dtype)
    return KVCache(z, z, jnp.zeros((), jnp.int32))


def rope(x, positions, base=10000.0):
    half = x.shape[-1] // 2
    inv = base ** (-jnp.arange(half, dtype=jnp.float32) / half)
    ang = positions.astype(jnp.float32)[:, None] * inv
    cos, sin = jnp.cos(ang)[None, :, None], jnp.sin(ang)[None, :, None]
    x1, x2 = x[..., :half], x[..., half:]
    return jnp.concatenate([x1 * cos - x2 * sin, x2 * cos + x1 * sin], axis=-1).astype(x.dtype)


@functools.partial(jax.jit, static_argnames=("logit_cap",))
def attend(params, x, cache, logit_cap=None):
    """Append x (B, T, C) to the cache and attend.  Returns (y, new_cache).

    The caller sees to it that length + T <= S.
    """
    B, T, _ = x.shape
    start = cache.length
    pos = start + jnp.arange(T)
    q = rope(jnp.einsum("btc,chd->bthd", x, params.wq), pos)
    k_new = rope(jnp.einsum("btc,ckd->btkd", x, params.wk), pos)
    v_new = jnp.einsum("btc,ckd->btkd", x, params.wv)

    at = (0, start, 0, 0)
    k = jax.lax.dynamic_update_slice(cache.k, k_new.astype(cache.k.dtype), at)
    v = jax.lax.dynamic_update_slice(cache.v, v_new.astype(cache.v.dtype), at)

    S, K = k.shape[1], k.shape[2]
    H, D = q.shape[2], q.shape[3]
    q = q.reshape(B, T, K, H // K, D) * D ** -0.5
    logits = jnp.einsum("btkgd,bskd->bkgts", q, k, preferred_element_type=jnp.float32)
    if logit_cap is not None:
        logits = logit_cap * jnp.tanh(logits / logit_cap)
    visible = jnp.arange(S)[None, :] <= pos[:, None]
    logits = jnp.where(visible, logits, jnp.finfo(jnp.float32).min)
    probs = jax.nn.softmax(logits, axis=-1).astype(v.dtype)
    out = jnp.einsum("bkgts,bskd->btkgd", probs, v).reshape(B, T, H, D)
    y = jnp.einsum("bthd,hdc->btc", out, params.wo)
    return y, KVCache(k, v, start + T)
