"""Ohùn: Yorùbá tone restoration (àmì ohùn), JAX inference step.

Multi-query attention (one k/v head for all), logits soft-capped as in Gemma 2,
fixed-size cache written with dynamic_update_slice so that jit compiles once.
"""
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

TONES = ("\u0300", "", "\u0301")      # low, mid, high


class Cache(NamedTuple):
    k: jax.Array        # [B, S, d]
    v: jax.Array        # [B, S, d]
    n: jax.Array        # how many slots are filled


def init_params(key, width=32, heads=4):
    d = width // heads
    kq, kk, kv, ko = jax.random.split(key, 4)
    s = width ** -0.5
    return dict(
        q=jax.random.normal(kq, (width, heads, d)) * s,
        k=jax.random.normal(kk, (width, d)) * s,
        v=jax.random.normal(kv, (width, d)) * s,
        o=jax.random.normal(ko, (heads, d, width)) * s,
    )


def empty_cache(batch, size, d):
    z = jnp.zeros((batch, size, d))
    return Cache(z, z, jnp.int32(0))


@partial(jax.jit, static_argnames=("cap",))
def tone_attention(params, x, cache, cap=30.0):
    """Causal.  x [B, L, width] are the next L syllables; the cache must have
    room for them.  Returns (y [B, L, width], cache).

    score = cap * tanh(q.k / sqrt(d) / cap); the mask comes after the cap.
    cap=None switches the capping off.
    """
    B, L, _ = x.shape
    q = jnp.einsum("blw,whd->bhld", x, params["q"])
    at = (jnp.zeros_like(cache.n), cache.n, jnp.zeros_like(cache.n))
    k = lax.dynamic_update_slice(cache.k, (x @ params["k"]).astype(cache.k.dtype), at)
    v = lax.dynamic_update_slice(cache.v, (x @ params["v"]).astype(cache.v.dtype), at)
    s = jnp.einsum("bhld,bsd->bhls", q, k) * q.shape[-1] ** -0.5
    if cap is not None:
        s = cap * jnp.tanh(s / cap)
    slot = jnp.arange(k.shape[1])
    here = cache.n + jnp.arange(L)
    s = jnp.where(slot[None, :] <= here[:, None], s, -jnp.inf)
    p = jax.nn.softmax(s.astype(jnp.float32), axis=-1).astype(v.dtype)
    y = jnp.einsum("bhls,bsd->bhld", p, v)
    y = jnp.einsum("bhld,hdw->blw", y, params["o"])
    return y, Cache(k, v, cache.n + L)


def restore(params, head, syllables, table):
    """Greedy tone marks for a list of syllables; head [width, 3]."""
    cache = empty_cache(1, len(syllables), params["k"].shape[1])
    out = []
    for s in syllables:
        x = table[s][None, None]
        y, cache = tone_attention(params, x, cache)
        t = int(jnp.argmax(y[0, 0] @ head))
        out.append(s[:-1] + s[-1] + TONES[t])
    return out


if __name__ == "__main__":
    key = jax.random.PRNGKey(0)
    p = init_params(key)
    words = ["o", "lo", "ri", "o", "ko"]
    table = {w: jax.random.normal(jax.random.fold_in(key, i), (32,)) for i, w in enumerate(words)}
    print(restore(p, jax.random.normal(key, (32, 3)), words, table))
