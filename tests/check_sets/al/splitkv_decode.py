"""Split-KV decoding for long contexts in JAX.

One query token per sequence; the cache is cut into `n_split` pieces, each piece gives a normalised
partial output and the natural log-sum-exp of its scores, and the pieces are merged:

    lse = log sum_s exp(lse_s),    out = sum_s exp(lse_s - lse) out_s
"""
from functools import partial

import jax
import jax.numpy as jnp

LOG2E = 1.4426950408889634
NEG = -1e30


def partial_attention(q, k, v, live):
    """q [H, d], k and v [T, H, d], live [T] -> (out [H, d], lse [H]).

    Works in base 2 inside, since exp2 is what the hardware has.
    """
    s = jnp.einsum("hd,thd->ht", q, k) * (q.shape[-1] ** -0.5 * LOG2E)
    s = jnp.where(live[None, :], s, NEG)
    m = s.max(-1)
    p = jnp.where(live[None, :], jnp.exp2(s - m[:, None]), 0.0)
    l = p.sum(-1)
    out = jnp.einsum("ht,thd->hd", p, v) / jnp.maximum(l, 1e-30)[:, None]
    lse = jnp.where(l > 0, m + jnp.log2(jnp.maximum(l, 1e-30)), NEG)
    return out, lse


def merge_pieces(outs, lses):
    """outs [S, H, d], lses [S, H]."""
    top = lses.max(0)
    w = jnp.exp(lses - top)
    w = w / w.sum(0)
    return jnp.einsum("sh,shd->hd", w, outs)


@partial(jax.jit, static_argnames="n_split")
def decode_attention(q, k_cache, v_cache, lengths, n_split=4):
    """q [B, H, d], caches [B, T, H, d] (T a multiple of n_split), lengths [B] >= 1 filled slots."""
    B, T, H, d = k_cache.shape
    live = jnp.arange(T)[None, :] < lengths[:, None]

    def one(q, k, v, live):
        cut = lambda a: a.reshape((n_split, T // n_split) + a.shape[1:])
        outs, lses = jax.vmap(partial_attention, in_axes=(None, 0, 0, 0))(q, cut(k), cut(v), cut(live))
        return merge_pieces(outs, lses)

    return jax.vmap(one)(q, k_cache, v_cache, live)


def append_token(cache, new, lengths):
    """Write new [B, H, d] in slot lengths[b] of cache [B, T, H, d]."""
    return cache.at[jnp.arange(cache.shape[0]), lengths].set(new)
