"""Softmax-one attention ("quiet attention") in JAX.

A head may say nothing: softmax1(x)_i = exp(x_i) / (1 + sum_j exp(x_j)), which is the ordinary softmax with
one more logit fixed at 0 whose value vector is 0.  If all logits are very negative the weights go to 0.
"""
from functools import partial
from typing import Optional

import jax
import jax.numpy as jnp


def softmax_one(x, axis=-1):
    """Stable version (shift by the maximum)."""
    m = jax.lax.stop_gradient(jnp.max(x, axis=axis, keepdims=True))
    e = jnp.exp(x - m)
    return e / (1.0 + jnp.sum(e, axis=axis, keepdims=True))


@partial(jax.jit, static_argnames=("causal",))
def quiet_attention(q, k, v, causal=False, key_mask: Optional[jnp.ndarray] = None):
    """q [B, Lq, H, d], k, v [B, Lk, H, d], key_mask [B, Lk] (True = use).  Returns [B, Lq, H, d]."""
    d = q.shape[-1]
    lq, lk = q.shape[1], k.shape[1]
    logits = jnp.einsum("bqhd,bkhd->bhqk", q, k) / jnp.sqrt(d)
    ok = jnp.ones((1, 1, lq, lk), bool)
    if causal:
        ok = ok & (jnp.arange(lk)[None, :] <= jnp.arange(lq)[:, None] + (lk - lq))
    if key_mask is not None:
        ok = ok & key_mask[:, None, None, :]
    logits = jnp.where(ok, logits, jnp.finfo(logits.dtype).min)
    return jnp.einsum("bhqk,bkhd->bqhd", softmax_one(logits), v)


def init_layer(key, dim, heads):
    keys = jax.random.split(key, 4)
    std = dim ** -0.5
    shape_in, shape_out = (dim, heads, dim // heads), (heads, dim // heads, dim)
    return {
        "wq": jax.random.normal(keys[0], shape_in) * std,
        "wk": jax.random.normal(keys[1], shape_in) * std,
        "wv": jax.random.normal(keys[2], shape_in) * std,
        "wo": jax.random.normal(keys[3], shape_out) * std,
    }


def layer(params, x, key_mask=None):
    q, k, v = (jnp.einsum("bld,dhe->blhe", x, params[n]) for n in ("wq", "wk", "wv"))
    y = quiet_attention(q, k, v, causal=True, key_mask=key_mask)
    return x + jnp.einsum("blhe,hed->bld", y, params["wo"])


def model(stack, x, key_mask=None):
    for p in stack:
        x = layer(p, x, key_mask)
    return x
