"""Step-by-step causal decoding with a fixed-size KV cache, as one lax.scan in JAX.

decode(params, xs, heads) gives for every position the same as full causal attention.
"""
import jax
import jax.numpy as jnp
from jax import lax


def init_params(key, dim):
    ks = jax.random.split(key, 4)
    return {n: jax.random.normal(k, (dim, dim)) * dim ** -0.5
            for n, k in zip(("wq", "wk", "wv", "wo"), ks)}


def empty_cache(batch, length, heads, d):
    return {"k": jnp.zeros((batch, length, heads, d)), "v": jnp.zeros((batch, length, heads, d))}


def step(params, heads, cache, x, t):
    """x (B, dim) the token at position t. Returns new cache and output (B, dim)."""
    B, dim = x.shape
    d = dim // heads
    q = (x @ params["wq"]).reshape(B, heads, d)
    k = (x @ params["wk"]).reshape(B, 1, heads, d)
    v = (x @ params["wv"]).reshape(B, 1, heads, d)

    keys = lax.dynamic_update_slice(cache["k"], k, (0, t, 0, 0))
    scores = jnp.einsum("bhd,bshd->bhs", q, keys) * d ** -0.5
    seen = jnp.arange(keys.shape[1]) <= t
    scores = jnp.where(seen, scores, -jnp.inf)
    w = jax.nn.softmax(scores, axis=-1)
    y = jnp.einsum("bhs,bshd->bhd", w, cache["v"]).reshape(B, dim)
    values = lax.dynamic_update_slice(cache["v"], v, (0, t, 0, 0))
    return {"k": keys, "v": values}, y @ params["wo"]


def decode(params, xs, heads):
    """xs (B, T, dim) -> (B, T, dim)"""
    B, T, dim = xs.shape

    def body(cache, inp):
        x, t = inp
        return step(params, heads, cache, x, t)

    cache = empty_cache(B, T, heads, dim // heads)
    _, ys = lax.scan(body, cache, (xs.swapaxes(0, 1), jnp.arange(T)))
    return ys.swapaxes(0, 1)
