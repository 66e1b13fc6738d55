from typing import NamedTuple

import jax
import jax.numpy as jnp


class KVCache(NamedTuple):
    k: jax.Array  # (B, S_max, d)
    v: jax.Array  # (B, S_max, d)


def init_cache(batch, s_max, d):
    return KVCache(jnp.zeros((batch, s_max, d)), jnp.zeros((batch, s_max, d)))


def mqa_decode_step(params, cache, x, pos):
    """Multi-query attention, one new token.  x: (B, D), pos: its index.  params: wq (D, H, d), wk, wv (D, d), wo (H, d, D)."""
    q = jnp.einsum("bm,mhd->bhd", x, params["wq"])
    k = jax.lax.dynamic_update_slice(cache.k, (x @ params["wk"])[:, None], (0, pos, 0))
    v = jax.lax.dynamic_update_slice(cache.v, (x @ params["wv"])[:, None], (0, pos, 0))
    logits = jnp.einsum("bhd,bsd->bhs", q, k) * q.shape[-1] ** -0.5
    written = jnp.arange(k.shape[1]) <= pos
    logits = jnp.where(written, logits, jnp.finfo(logits.dtype).min)
    o = jnp.einsum("bhs,bsd->bhd", jax.nn.softmax(logits, axis=-1), v)
    return jnp.einsum("bhd,hdm->bm", o, params["wo"]), KVCache(k, v)
