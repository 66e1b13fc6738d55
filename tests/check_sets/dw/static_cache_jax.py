"""Static-shape KV cache for jit: buffers of fixed length, written with dynamic_update_slice.

    cache = empty_cache(batch, max_len, heads, dim)
    y, cache = attend(params, cache, x)          any number of times

x is a chunk (batch, T, heads*dim) of T new tokens, T may differ from call to call (each T compiles
once) and T new tokens always fit.  cache = dict(k, v (batch, max_len, heads, dim), used scalar int32).
A new token sees every cached token, the earlier ones of its chunk, and itself; never the unused
tail of the buffers.  The result is the same as one call with all tokens at once.
params: wq, wk, wv, wo, each (heads*dim, heads*dim); columns of wq/wk/wv are head-major.
No positions are encoded here.
"""
from functools import partial
import jax
import jax.numpy as jnp
from jax import lax


def empty_cache(batch, max_len, heads, dim):
    zeros = jnp.zeros((batch, max_len, heads, dim))
    return {"k": zeros, "v": zeros, "used": jnp.int32(0)}


@partial(jax.jit, static_argnames=())
def attend(params, cache, x):
    b, t, _ = x.shape
    _, max_len, h, d = cache["k"].shape
    q, k, v = ((x @ params[n]).reshape(b, t, h, d) for n in ("wq", "wk", "wv"))

    at = (0, cache["used"], 0, 0)
    keys = lax.dynamic_update_slice(cache["k"], k, at)
    vals = lax.dynamic_update_slice(cache["v"], v, at)

    my_pos = cache["used"] + jnp.arange(t)
    slot = jnp.arange(max_len)
    seen = slot[None, :] <= my_pos[:, None]                     # t, max_len

    s = jnp.einsum("bthd,bshd->bhts", q, keys) / jnp.sqrt(jnp.float32(d))
    s = jnp.where(seen, s, -jnp.inf)
    y = jnp.einsum("bhts,bshd->bthd", jax.nn.softmax(s), vals)
    new = {"k": keys, "v": vals, "used": cache["used"] + t}
    return y.reshape(b, t, h * d) @ params["wo"], new
