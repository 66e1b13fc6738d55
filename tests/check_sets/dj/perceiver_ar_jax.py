"""Perceiver AR (Hawthorne et al., 2022): the initial causally masked cross-attend.

A long context of M positions is read into N latents. The latents *are* the last
N positions of the context, hence latent n sits at absolute position M - N + n and
may read every position up to and including its own.
"""
from functools import partial

import jax
import jax.numpy as jnp


def init(key, d, heads):
    ks = jax.random.split(key, 4)
    dh = d // heads
    n = lambda k, s: jax.random.normal(k, s) / jnp.sqrt(d)
    return dict(
        wq=n(ks[0], (d, heads, dh)),
        wk=n(ks[1], (d, heads, dh)),
        wv=n(ks[2], (d, heads, dh)),
        wo=n(ks[3], (heads, dh, d)),
        gq=jnp.ones(d), gk=jnp.ones(d),
    )


def _ln(x, g):
    mu = x.mean(-1, keepdims=True)
    return g * (x - mu) * jax.lax.rsqrt(x.var(-1, keepdims=True) + 1e-6)


@partial(jax.jit, static_argnums=2)
def perceiver_ar_read(p, x, n_latents, is_pad):
    """
    p         : parameters of `init`
    x         : (B, M, D) embedded context, most recent token last
    n_latents : N <= M, static
    is_pad    : (B, M) bool, True = left padding. Padding never reaches into the
                last N positions (the loader guarantees it).
    returns   : (B, N, D), with the residual of the latents added
    """
    M = x.shape[1]
    lat = x[:, M - n_latents:]
    q = jnp.einsum("bnd,dhe->bnhe", _ln(lat, p["gq"]), p["wq"])
    ctx = _ln(x, p["gk"])
    k = jnp.einsum("bmd,dhe->bmhe", ctx, p["wk"])
    v = jnp.einsum("bmd,dhe->bmhe", ctx, p["wv"])

    q = q / jnp.sqrt(q.shape[-1])
    s = jnp.einsum("bnhe,bmhe->bhnm", q, k)

    here = jnp.arange(n_latents)[:, None] + (M - n_latents)
    there = jnp.arange(M)[None, :]
    visible = (there <= here)[None, None] & ~is_pad[:, None, None, :]
    s = jnp.where(visible, s, jnp.finfo(s.dtype).min)

    w = jax.nn.softmax(s, axis=-1)
    o = jnp.einsum("bhnm,bmhe->bnhe", w, v)
    return lat + jnp.einsum("bnhe,hed->bnd", o, p["wo"])
