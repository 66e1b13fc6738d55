"""Grouped-query decoding in JAX with a preallocated cache.

Weights follow the Llama convention: query heads 0..G-1 share kv head 0, query heads
G..2G-1 share kv head 1, and so on (G = n_heads // n_kv).

cache_k, cache_v   (B, S, n_kv, d)   S slots, the first `length` of them filled
x                  (B, 1, D)         the new token, goes to slot `length`
params             "wq" (D, n_heads, d), "wk"/"wv" (D, n_kv, d), "wo" (n_heads, d, D)
"""
import jax
import jax.numpy as jnp


def rope(x, pos, base=10000.0):
    """x (B, T, h, d), pos scalar; half-split."""
    d = x.shape[-1]
    ang = pos * base ** (-jnp.arange(d // 2) / (d // 2))
    c, s = jnp.cos(ang), jnp.sin(ang)
    x1, x2 = jnp.split(x, 2, axis=-1)
    return jnp.concatenate([x1 * c - x2 * s, x2 * c + x1 * s], axis=-1)


@jax.jit
def decode_step(params, x, cache_k, cache_v, length):
    """Returns y (B, 1, D) and the two caches with slot `length` written."""
    q = rope(jnp.einsum("btm,mhd->bthd", x, params["wq"]), length)
    k = rope(jnp.einsum("btm,mhd->bthd", x, params["wk"]), length)
    v = jnp.einsum("btm,mhd->bthd", x, params["wv"])
    cache_k = jax.lax.dynamic_update_slice(cache_k, k, (0, length, 0, 0))
    cache_v = jax.lax.dynamic_update_slice(cache_v, v, (0, length, 0, 0))

    group = q.shape[2] // cache_k.shape[2]
    keys = jnp.tile(cache_k, (1, 1, group, 1))
    vals = jnp.tile(cache_v, (1, 1, group, 1))
    logits = jnp.einsum("bthd,bshd->bhts", q, keys) * q.shape[-1] ** -0.5
    filled = jnp.arange(cache_k.shape[1]) <= length
    logits = jnp.where(filled, logits, -jnp.inf)
    w = jax.nn.softmax(logits, axis=-1)
    o = jnp.einsum("bhts,bshd->bthd", w, vals)
    return jnp.einsum("bthd,hdm->btm", o, params["wo"]), cache_k, cache_v
