"""Attention with O(sqrt n) memory (Rabe & Staats 2021): scan over keys, map over queries."""
import functools

import jax
import jax.numpy as jnp
from jax import lax


def _summary(q, k, v, live):
    s = jnp.einsum("qhd,khd->hqk", q, k)
    s = jnp.where(live, s, -jnp.inf)
    m = lax.stop_gradient(s.max(-1))
    m = jnp.where(jnp.isfinite(m), m, 0.0)
    e = jnp.where(live, jnp.exp(s - m[..., None]), 0.0)
    return m, e.sum(-1), jnp.einsum("hqk,khd->hqd", e, v)


def _queries(q, k, v, n_valid, chunk):
    H, d = q.shape[1:]
    Q = q.shape[0]
    ks = k.reshape(-1, chunk, H, d)
    vs = v.reshape(-1, chunk, H, v.shape[-1])

    def body(carry, xs):
        c, kc, vc = xs
        M, Z, A = carry
        live = c * chunk + jnp.arange(chunk) < n_valid
        m, z, a = _summary(q, kc, vc, live)
        # an empty chunk says nothing about the maximum
        top = jnp.maximum(M, jnp.where(z > 0, m, -jnp.inf))
        ref = jnp.where(jnp.isfinite(top), top, 0.0)
        old = jnp.exp(M - ref)
        new = jnp.where(z > 0, jnp.exp(m - ref), 0.0)
        return (top, Z * old + z * new, A * old[..., None] + a * new[..., None]), None

    start = (jnp.full((H, Q), -jnp.inf), jnp.zeros((H, Q)), jnp.zeros((H, Q, v.shape[-1])))
    (_, Z, A), _ = lax.scan(jax.checkpoint(body), start, (jnp.arange(len(ks)), ks, vs))
    return jnp.where(Z > 0, 1.0, 0.0)[..., None] * A / jnp.where(Z > 0, Z, 1.0)[..., None]


@functools.partial(jax.jit, static_argnames=("q_chunk", "k_chunk"))
def attention(q, k, v, lengths, q_chunk=4, k_chunk=4):
    """q (B, Lq, H, d), k (B, Lk, H, d), v (B, Lk, H, e), lengths (B,) valid keys.

    Lq and Lk must be multiples of the chunk sizes. Zero-length rows give zeros.
    """
    q = q / jnp.sqrt(q.shape[-1])

    def one(q, k, v, n):
        qs = q.reshape(-1, q_chunk, *q.shape[1:])
        o = lax.map(lambda c: _queries(c, k, v, n, k_chunk), qs)     # (nq, H, q_chunk, e)
        return jnp.moveaxis(o, 1, 2).reshape(q.shape[0], q.shape[1], -1)

    return jax.vmap(one)(q, k, v, lengths)
