"""Chunked prefill for a decoder-only model in JAX.

A long prompt is processed a few tokens at a time.  `extend` takes the next chunk together with the
cache of everything before it, so

    y1, c = extend(p, x[:, :a], None);  y2, c = extend(p, x[:, a:], c)

gives the same as one causal pass over x.
"""
from typing import NamedTuple, Optional

import jax
import jax.numpy as jnp


class Cache(NamedTuple):
    k: jax.Array  # (B, H, P, d)
    v: jax.Array


def make_params(seed=0, width=24, heads=3):
    d = width // heads
    keys = jax.random.split(jax.random.PRNGKey(seed), 4)
    init = lambda k, s, fan: jax.random.normal(k, s) / jnp.sqrt(fan)
    return {
        "q": init(keys[0], (width, heads, d), width),
        "k": init(keys[1], (width, heads, d), width),
        "v": init(keys[2], (width, heads, d), width),
        "o": init(keys[3], (heads, d, width), width),
    }


def extend(params, x: jax.Array, cache: Optional[Cache] = None):
    """x: (B, L, width), the tokens that follow the cached ones. Returns (B, L, width), Cache."""
    q = jnp.einsum("blw,whd->bhld", x, params["q"])
    k = jnp.einsum("blw,whd->bhld", x, params["k"])
    v = jnp.einsum("blw,whd->bhld", x, params["v"])
    if cache is not None:
        k = jnp.concatenate([cache.k, k], axis=2)
        v = jnp.concatenate([cache.v, v], axis=2)

    s = jnp.einsum("bhld,bhmd->bhlm", q, k) / jnp.sqrt(q.shape[-1])
    mask = jnp.tril(jnp.ones(s.shape[-2:], dtype=bool))
    s = jnp.where(mask, s, -jnp.inf)
    p = jax.nn.softmax(s, axis=-1)
    o = jnp.einsum("bhlm,bhmd->bhld", p, v)
    return jnp.einsum("bhld,hdw->blw", o, params["o"]), Cache(k, v)


def prefill(params, x: jax.Array, chunk: int = 4):
    """Causal attention over a whole prompt x (B, T, width), `chunk` tokens at a time."""
    cache, outs = None, []
    for start in range(0, x.shape[1], chunk):
        y, cache = extend(params, x[:, start : start + chunk], cache)
        outs.append(y)
    return jnp.concatenate(outs, axis=1), cache
