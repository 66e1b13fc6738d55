import math

import jax
import jax.numpy as jnp
from jax import nn


def slopes(n):
    """ALiBi slopes, also for head counts which are no power of two (as in the authors' code)."""
    def pow2(m):
        r = 2.0 ** (-8.0 / m)
        return [r ** (i + 1) for i in range(m)]

    p = 2 ** int(math.floor(math.log2(n)))
    return jnp.array(pow2(p) + pow2(2 * p)[0::2][: n - p])


def init(rng, width=36, heads=6):
    ks = jax.random.split(rng, 2)
    return {
        "qkv": jax.random.normal(ks[0], (heads, 3, width, width // heads)) * width ** -0.5,
        "out": jax.random.normal(ks[1], (heads, width // heads, width)) * width ** -0.5,
    }


def attend(params, x, past=None):
    """Causal attention with ALiBi.

    x     [T, width], no batch axis (vmap it)
    past  None or a pair (k, v), each [heads, S, d], of the S earlier tokens
    Returns y [T, width] and the new (k, v). Bias is -slope * (query position - key position).
    """
    q, k, v = jnp.einsum("tw,hcwd->chtd", x, params["qkv"])
    if past is not None:
        k = jnp.concatenate([past[0], k], 1)
        v = jnp.concatenate([past[1], v], 1)
    h, T, d = q.shape
    S = k.shape[1]
    i = jnp.arange(S - T, S)[:, None]
    j = jnp.arange(S)[None, :]
    # slope * j differs from -slope * (i - j) only by a constant in each row
    logits = q @ k.mT * d ** -0.5 + slopes(h)[:, None, None] * j
    y = nn.softmax(logits, axis=-1, where=(j <= i)[None]) @ v
    return jnp.einsum("htd,hdw->tw", y, params["out"]), (k, v)
