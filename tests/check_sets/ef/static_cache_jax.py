"""Static-shape KV cache for jitted decoding (single sequence).

attend_static(x, cache, pos, w)
    x      (T, D)  new tokens, absolute positions pos .. pos+T-1
    cache  dict k, v of shape (S, h, d): slots 0..pos-1 are filled, S >= pos+T
    pos    int32 scalar, number of tokens already in the cache
    w      dict wq, wk, wv (D, h, d), wo (h, d, D)
returns (y (T, D), new cache). The token at position p attends to the positions
0..p: itself and everything older. Scale 1/sqrt(d).

Slots that are not written yet hold zeros and must never be read.
"""
import jax
import jax.numpy as jnp
from jax import lax


def empty_cache(slots, h, d, dtype=jnp.float32):
    return {"k": jnp.zeros((slots, h, d), dtype), "v": jnp.zeros((slots, h, d), dtype)}


@jax.jit
def attend_static(x, cache, pos, w):
    t = x.shape[0]
    q = jnp.einsum("td,dhe->the", x, w["wq"])
    k = jnp.einsum("td,dhe->the", x, w["wk"])
    v = jnp.einsum("td,dhe->the", x, w["wv"])
    k_all = lax.dynamic_update_slice(cache["k"], k, (pos, 0, 0))
    v_all = lax.dynamic_update_slice(cache["v"], v, (pos, 0, 0))

    slots = k_all.shape[0]
    q_pos = pos + jnp.arange(t)
    k_pos = jnp.arange(slots)
    visible = k_pos[None, :] <= q_pos[:, None] + 1

    logits = jnp.einsum("the,she->hts", q, k_all) / jnp.sqrt(q.shape[-1])
    logits = jnp.where(visible[None], logits, jnp.finfo(logits.dtype).min)
    probs = jax.nn.softmax(logits, axis=-1)
    y = jnp.einsum("hts,she->the", probs, v_all)
    return jnp.einsum("the,hed->td", y, w["wo"]), {"k": k_all, "v": v_all}
