"""Functional JAX: causal sliding-window attention with interleaved RoPE and logit softcap.

params = init(key); y = apply(params, x), x [T, D] (use vmap for batches).
`window` counts the token itself: position t sees t-window+1 .. t.
"""
from functools import partial

import jax
import jax.numpy as jnp

D, H, HD = 24, 3, 8


def init(key, dim=D, heads=H, hd=HD):
    ks = jax.random.split(key, 4)
    s = dim ** -0.5
    return {
        "q": s * jax.random.normal(ks[0], (dim, heads, hd)),
        "k": s * jax.random.normal(ks[1], (dim, heads, hd)),
        "v": s * jax.random.normal(ks[2], (dim, heads, hd)),
        "o": (heads * hd) ** -0.5 * jax.random.normal(ks[3], (heads, hd, dim)),
    }


def rot(x, theta=10000.0):
    """pairs (0,1), (2,3), ... as complex numbers. x [T, H, hd]"""
    T, _, hd = x.shape
    f = theta ** (-jnp.arange(0, hd, 2) / hd)
    z = x[..., 0::2] + 1j * x[..., 1::2]
    z = z * jnp.exp(1j * jnp.arange(T)[:, None] * f)[:, None]
    return jnp.stack([z.real, z.imag], -1).reshape(x.shape)


@partial(jax.jit, static_argnames=("window", "softcap"))
def apply(params, x, window=4, softcap=20.0):
    T = x.shape[0]
    q, k, v = (jnp.einsum("td,dhk->thk", x, params[n]) for n in "qkv")
    q, k = rot(q), rot(k)
    s = jnp.einsum("ihk,jhk->hij", q, k) / q.shape[-1] ** 0.5
    if softcap:
        s = softcap * jnp.tanh(s / softcap)
    gap = jnp.arange(T)[:, None] - jnp.arange(T)
    s = jnp.where((gap >= 0) & (gap < window), s, -jnp.inf)
    w = jnp.exp(s - jax.nn.logsumexp(s, axis=-1, keepdims=True))
    return jnp.einsum("hij,jhk,hkd->id", w, v, params["o"])
