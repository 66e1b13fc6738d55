"""Memory-lean attention for long proteins (after Rabe & Staats 2021), JAX.

Queries are mapped chunk by chunk, keys are scanned chunk by chunk with a running maximum, so that
no [L, L] array is made.  Lengths need not be multiples of the chunk; the tail is padded here.
"""
import math
from functools import partial

import jax
import jax.numpy as jnp
from jax import lax

_VERY_NEGATIVE = -1e30


def _pad_to(x, n, value=0):
    extra = (-x.shape[0]) % n
    return jnp.pad(x, [(0, extra)] + [(0, 0)] * (x.ndim - 1), constant_values=value)


def _one_query_chunk(qc, k, v, residue_ok, ck):
    nk = k.shape[0] // ck
    H, d = qc.shape[1:]

    def body(carry, idx):
        acc, den, mx = carry
        kc = lax.dynamic_slice_in_dim(k, idx * ck, ck)
        vc = lax.dynamic_slice_in_dim(v, idx * ck, ck)
        ok = lax.dynamic_slice_in_dim(residue_ok, idx * ck, ck)
        s = jnp.einsum("qhd,khd->qhk", qc, kc)
        s = jnp.where(ok[None, None, :], s, _VERY_NEGATIVE)
        new_mx = jnp.maximum(mx, s.max(-1))
        w = jnp.where(ok[None, None, :], jnp.exp(s - new_mx[..., None]), 0.0)
        shrink = jnp.exp(mx - new_mx)
        acc = acc * shrink[..., None] + jnp.einsum("qhk,khd->qhd", w, vc)
        den = den * shrink + w.sum(-1)
        return (acc, den, new_mx), None

    init = (jnp.zeros(qc.shape[:2] + (v.shape[-1],), qc.dtype),
            jnp.zeros(qc.shape[:2], qc.dtype),
            jnp.full(qc.shape[:2], _VERY_NEGATIVE, qc.dtype))
    (acc, den, _), _ = lax.scan(jax.checkpoint(body), init, jnp.arange(nk))
    return acc / jnp.where(den == 0, 1.0, den)[..., None]


@partial(jax.jit, static_argnames=("cq", "ck"))
def lean_attention(q, k, v, residue_ok, cq=128, ck=256):
    """q [Lq, H, d], k [Lk, H, d], v [Lk, H, dv], residue_ok [Lk] bool (False = gap or padding).

    A query for which no residue is ok gets zeros.
    """
    Lq = q.shape[0]
    q = _pad_to(q / math.sqrt(q.shape[-1]), cq)
    k, v = _pad_to(k, ck), _pad_to(v, ck)
    residue_ok = _pad_to(residue_ok, ck, False)
    chunks = q.reshape(-1, cq, *q.shape[1:])
    out = lax.map(lambda c: _one_query_chunk(c, k, v, residue_ok, ck), chunks)
    return out.reshape(-1, *out.shape[2:])[:Lq]


def protein_block(params, x, residue_ok):
    """Pre-norm block over x [L, D]."""
    mu = x.mean(-1, keepdims=True)
    h = (x - mu) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5)
    q, k, v = (jnp.einsum("ld,dhe->lhe", h, params[n]) for n in ("q", "k", "v"))
    x = x + jnp.einsum("lhe,hed->ld", lean_attention(q, k, v, residue_ok), params["o"])
    return x + jax.nn.gelu(x @ params["up"]) @ params["down"]
