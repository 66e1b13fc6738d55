"""Memory-efficient attention in JAX: lax.scan over key blocks, online softmax.

"Self-attention Does Not Need O(n^2) Memory" (Rabe & Staats), with running maximum m, running
denominator l and running numerator acc per query.  The value returned should agree with
jax.nn.softmax(q @ k.T / sqrt(d)) @ v for every block size.
"""
import functools

import jax
import jax.numpy as jnp


@functools.partial(jax.jit, static_argnames=("block",))
def scan_attention(q, k, v, block=64):
    """
    q (Lq, d), k (Lk, d), v (Lk, dv); use vmap for heads and batch.
    Lk has to be a multiple of block. No mask. Returns (Lq, dv).
    """
    Lq, d = q.shape
    Lk, dv = v.shape
    n = Lk // block
    kb = k.reshape(n, block, d)
    vb = v.reshape(n, block, dv)
    q = q * d ** -0.5

    def step(carry, kv):
        m, l, acc = carry
        ki, vi = kv
        s = q @ ki.T                                   # (Lq, block)
        m_new = jnp.maximum(m, s.max(axis=1))
        alpha = jnp.exp(m - m_new)
        p = jnp.exp(s - m_new[:, None])
        acc = acc * alpha[:, None] + p @ vi
        l = l + p.sum(axis=1)
        return (m_new, l, acc), None

    start = (
        jnp.full((Lq,), -jnp.inf, q.dtype),
        jnp.zeros((Lq,), q.dtype),
        jnp.zeros((Lq, dv), v.dtype),
    )
    (_, l, acc), _ = jax.lax.scan(step, start, (kb, vb))
    return acc / l[:, None]
