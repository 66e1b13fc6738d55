"""Split-KV decode: partial attention for each shard of the cache, then a merge.

Every shard gives its normalised output and the log-sum-exp of its logits; `merge`
joins them so that the result equals attention over the whole cache.
"""
from typing import Sequence, Tuple

import jax
import jax.numpy as jnp

LOG2E = 1.4426950408889634


def partial_attention(q, k, v, valid) -> Tuple[jax.Array, jax.Array]:
    """q [B, H, D]; k, v [B, S, H, D]; valid [B, S] bool, at least one slot in use.

    The kernel works with exp2 as the TPU one does (logits times log2(e)).
    """
    scale = q.shape[-1] ** -0.5
    logits = jnp.einsum("bhd,bshd->bhs", q, k) * (scale * LOG2E)
    logits = jnp.where(valid[:, None, :], logits, -jnp.inf)
    m = jnp.max(logits, axis=-1, keepdims=True)
    p = jnp.exp2(logits - m)
    z = jnp.sum(p, axis=-1, keepdims=True)
    out = jnp.einsum("bhs,bshd->bhd", p / z, v)
    lse = (m + jnp.log2(z))[..., 0]
    return out, lse


def merge(outs: jax.Array, lses: jax.Array) -> jax.Array:
    """outs [N, B, H, D], lses [N, B, H] -> [B, H, D]"""
    top = jnp.max(lses, axis=0, keepdims=True)
    w = jnp.exp(lses - top)
    w = w / jnp.sum(w, axis=0, keepdims=True)
    return jnp.sum(w[..., None] * outs, axis=0)


def split_decode(q, k, v, length, num_splits: int = 2):
    """q [B, H, D]; k, v [B, S, H, D]; length [B] tokens in the cache.

    The result is softmax(q k^T / sqrt(D)) v over the first `length` slots. S must be a
    multiple of num_splits and every split must hold a token.
    """
    S = k.shape[1]
    size = S // num_splits
    outs, lses = [], []
    for n in range(num_splits):
        sl = slice(n * size, (n + 1) * size)
        valid = jnp.arange(n * size, (n + 1) * size)[None, :] < length[:, None]
        o, l = partial_attention(q, k[:, sl], v[:, sl], valid)
        outs.append(o)
        lses.append(l)
    return merge(jnp.stack(outs), jnp.stack(lses))


def shard_plan(lengths: Sequence[int], shards: int, block: int = 16):
    """How many slots each shard has to hold so that all are equally long."""
    longest = max(lengths)
    blocks = -(-longest // block)
    per = -(-blocks // shards)
    return [per * block] * shards


def append_token(k_cache, v_cache, k_new, v_new, length):
    """Writes k_new, v_new [B, H, D] at each sequence's own length."""
    b = jnp.arange(k_cache.shape[0])
    return k_cache.at[b, length].set(k_new), v_cache.at[b, length].set(v_new), length + 1
