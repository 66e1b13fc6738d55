"""Attention over long memories without the (Lq, Lk) matrix.

scan_attention(q, k, v, lengths, block)
    q         (B, H, Lq, d)
    k, v      (B, H, Lk, d), Lk a multiple of block
    lengths   (B,) ints >= 1: only the first lengths[b] keys of sample b exist
    ->        (out (B, H, Lq, d), lse (B, H, Lq))
The keys are read block after block with lax.scan; maximum, denominator and
numerator are carried along and rescaled when the maximum grows.  Scores are
q.k / sqrt(d); lse is the natural log of the sum of exp(scores).
"""
from functools import partial

import jax
import jax.numpy as jnp


@partial(jax.jit, static_argnames="block")
def scan_attention(q, k, v, lengths, block=16):
    B, H, Lq, d = q.shape
    n = k.shape[2] // block
    q = q * d ** -0.5
    # the scanned axis has to be the first one
    kb = k.reshape(B, H, n, block, d).transpose(2, 0, 1, 3, 4)
    vb = v.reshape(B, H, n, block, d).transpose(2, 0, 1, 3, 4)
    start = jnp.arange(n) * block

    def step(carry, chunk):
        top, den, num = carry
        kc, vc, s0 = chunk
        s = jnp.einsum("bhqd,bhkd->bhqk", q, kc)
        exists = (s0 + jnp.arange(block))[None, :] < lengths[:, None]
        s = jnp.where(exists[:, None, None, :], s, -jnp.inf)
        new = jnp.maximum(top, s.max(-1))
        shrink = jnp.exp(top - new)
        p = jnp.exp(s - new[..., None])
        den = den * shrink + p.sum(-1)
        num = num * shrink[..., None] + jnp.einsum("bhqk,bhkd->bhqd", p, vc)
        return (new, den, num), None

    init = (
        jnp.full((B, H, Lq), -jnp.inf, q.dtype),
        jnp.zeros((B, H, Lq), q.dtype),
        jnp.zeros((B, H, Lq, d), q.dtype),
    )
    # the first key always exists, hence `new` is finite from the first block on
    (top, den, num), _ = jax.lax.scan(step, init, (kb, vb, start))
    return num / den[..., None], top + jnp.log(den)
