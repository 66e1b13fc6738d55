"""Memory-efficient attention with lax.scan (Rabe & Staats, 2021).

Each key chunk gives an unnormalised value sum, a weight sum and its maximum;
the chunks are put together at the end with the common maximum.
"""
import functools

import jax
import jax.numpy as jnp
from jax import lax


def _one_chunk(q, k, v, bias):
    s = jnp.einsum("qhd,khd->hqk", q, k) + bias[None]
    top = lax.stop_gradient(s.max(-1))
    e = jnp.exp(s - top[..., None])
    return jnp.einsum("hqk,khd->hqd", e, v), e.sum(-1), top


@functools.partial(jax.jit, static_argnames=("chunk", "causal"))
def chunked_attention(q, k, v, chunk=4, causal=True):
    """q [Lq, H, D], k and v [Lk, H, D] -> [Lq, H, D]

    Any Lk will do, the last chunk is filled up and the filling masked.  With
    causal=True the last query sees every key (decoding convention).
    """
    lq, h, d = q.shape
    lk = k.shape[0]
    n = -(-lk // chunk)
    extra = ((0, n * chunk - lk), (0, 0), (0, 0))
    k = jnp.pad(k, extra).reshape(n, chunk, h, d)
    v = jnp.pad(v, extra).reshape(n, chunk, h, -1)
    q = q * d ** -0.5
    row = jnp.arange(lq)[:, None] + (lk - lq)

    def body(_, xs):
        i, kc, vc = xs
        col = i * chunk + jnp.arange(chunk)[None, :]
        ok = (col < lk) & ((col <= row) | (not causal))
        return None, _one_chunk(q, kc, vc, jnp.where(ok, 0.0, -1e30))

    _, (num, den, top) = lax.scan(body, None, (jnp.arange(n), k, v))
    common = top.max(0)
    scale = jnp.exp(top - common)                       # [n, H, Lq]
    num = (num * scale[..., None]).sum(0)
    den = (den * scale).sum(0)
    return jnp.moveaxis(num / den[..., None], 0, 1)


def self_attention(params, x, heads=2, chunk=4):
    """x [L, D]; batch with jax.vmap."""
    split = lambda a: a.reshape(a.shape[0], heads, -1)
    q, k, v = (split(x @ params[n]) for n in ("wq", "wk", "wv"))
    return chunked_attention(q, k, v, chunk).reshape(x.shape[0], -1) @ params["wo"]


def init(key, dim=16):
    keys = jax.random.split(key, 4)
    return {n: jax.random.normal(kk, (dim, dim)) * dim ** -0.5 for n, kk in zip(("wq", "wk", "wv", "wo"), keys)}
