"""Decode step for a JAX server; everything has a fixed shape so that jit compiles once.

cache = {"k": (B, S, K, D), "v": (B, S, K, D)}, S the capacity.  `lengths` (B,) tells how
many tokens each row of the batch already holds; rows may differ (continuous batching).
"""
import functools

import jax
import jax.numpy as jnp


def init_cache(batch, capacity, kv_heads, head_dim, dtype=jnp.float32):
    z = jnp.zeros((batch, capacity, kv_heads, head_dim), dtype)
    return {"k": z, "v": z}


def _put(row, new, at):
    return jax.lax.dynamic_update_slice(row, new[None], (at, 0, 0))


@functools.partial(jax.jit, static_argnames=("kv_heads",))
def decode_step(params, cache, lengths, x, kv_heads):
    """params: {"q": (E, N, D), "k": (E, K, D), "v": (E, K, D), "o": (N, D, E)}, N % K == 0,
    head n of the N query heads using KV head n // (N // K).
    x: (B, E), the embedding of the next token of each row (lengths[b] < S).
    Returns (y (B, E), new cache, lengths + 1).  The token attends to all tokens before it
    in its row and to itself, logits divided by sqrt(D).
    """
    q = jnp.einsum("be,end->bnd", x, params["q"])
    k = jnp.einsum("be,ekd->bkd", x, params["k"])
    v = jnp.einsum("be,ekd->bkd", x, params["v"])
    ck = jax.vmap(_put)(cache["k"], k, lengths)
    cv = jax.vmap(_put)(cache["v"], v, lengths)

    b, n, d = q.shape
    q = q.reshape(b, kv_heads, n // kv_heads, d) * jax.lax.rsqrt(jnp.float32(d))
    logits = jnp.einsum("bkgd,bskd->bkgs", q, ck)
    visible = jnp.arange(ck.shape[1])[None, :] <= lengths[:, None]
    logits = jnp.where(visible[:, None, None, :], logits, jnp.finfo(logits.dtype).min)
    probs = jax.nn.softmax(logits, axis=-1)
    ctx = jnp.einsum("bkgs,bskd->bkgd", probs, cv).reshape(b, n, d)
    y = jnp.einsum("bnd,nde->be", ctx, params["o"])
    return y, {"k": ck, "v": cv}, lengths + 1
