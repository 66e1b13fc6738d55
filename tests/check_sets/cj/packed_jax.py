"""Attention over packed documents in JAX.

Several documents sit in one row; ``segment_ids`` tells them apart and 0 is padding.
"""
from functools import partial

import jax
import jax.numpy as jnp


def make_mask(segment_ids):
    """(B, T) -> (B, T, T) bool, True = may look: same document and not later."""
    t = segment_ids.shape[-1]
    same = segment_ids[:, :, None] == segment_ids[:, None, :]
    real = (segment_ids != 0)[:, None, :]
    causal = jnp.arange(t)[:, None] >= jnp.arange(t)[None, :]
    return same & real & causal


@partial(jax.jit, static_argnames=("return_weights",))
def packed_attention(q, k, v, segment_ids, return_weights=False):
    """q (B, T, H, D), k and v (B, T, K, D) with H a multiple of K.

    Head h of q uses head h // (H // K) of k and v. Padding positions give zeros.
    Softmax in float32, the result has the dtype of v.
    """
    b, t, h, d = q.shape
    groups = k.shape[2]
    q = q.reshape(b, t, groups, h // groups, d)
    logits = jnp.einsum("bqgrd,bkgd->bgrqk", q, k, preferred_element_type=jnp.float32)
    logits = logits * jax.lax.rsqrt(jnp.float32(d))
    mask = make_mask(segment_ids)[:, None, None]
    logits = jnp.where(mask, logits, jnp.finfo(jnp.float32).min)
    weights = jax.nn.softmax(logits, axis=-1)
    weights = jnp.where(mask, weights, 0.0)
    out = jnp.einsum("bgrqk,bkgd->bqgrd", weights.astype(v.dtype), v)
    out = out.reshape(b, t, h, d)
    if return_weights:
        return out, weights.reshape(b, h, t, t)
    return out
