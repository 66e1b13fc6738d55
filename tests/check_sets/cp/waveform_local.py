"""Local causal attention for seismic waveforms, plain JAX.

Every sample attends to the `window` most recent samples, the current one
included. So with window=1 a sample sees only itself. RMS-normalised queries and
keys (QK norm) with a learned gain, then the usual 1/sqrt(d).
"""
import functools

import jax
import jax.numpy as jnp


def init(key, dim: int = 32, heads: int = 4):
    ks = jax.random.split(key, 4)
    s = dim ** -0.5
    d = dim // heads
    return {
        "wq": jax.random.normal(ks[0], (dim, heads, d)) * s,
        "wk": jax.random.normal(ks[1], (dim, heads, d)) * s,
        "wv": jax.random.normal(ks[2], (dim, heads, d)) * s,
        "wo": jax.random.normal(ks[3], (heads, d, dim)) * s,
        "gq": jnp.ones((d,)),
        "gk": jnp.ones((d,)),
    }


def rms(x, gain, eps=1e-6):
    return x * jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + eps) * gain


def local_mask(n: int, window: int):
    """[n, n] bool, True = visible"""
    i = jnp.arange(n)[:, None]
    j = jnp.arange(n)[None, :]
    return (j <= i) & (i - j <= window)


@functools.partial(jax.jit, static_argnames="window")
def local_attention(params, x, window: int = 4):
    """x: [batch, n, dim] -> [batch, n, dim]"""
    q = jnp.einsum("bnc,chd->bhnd", x, params["wq"])
    k = jnp.einsum("bnc,chd->bhnd", x, params["wk"])
    v = jnp.einsum("bnc,chd->bhnd", x, params["wv"])
    q, k = rms(q, params["gq"]), rms(k, params["gk"])

    logits = jnp.einsum("bhid,bhjd->bhij", q, k) / q.shape[-1] ** 0.5
    logits = jnp.where(local_mask(x.shape[1], window), logits, -jnp.inf)
    probs = jax.nn.softmax(logits, axis=-1)
    return jnp.einsum("bhid,hdc->bic", jnp.einsum("bhij,bhjd->bhid", probs, v), params["wo"])
