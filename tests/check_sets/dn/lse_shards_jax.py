"""Attention over keys that live in several shards (plain JAX).

attend_shard(q, k, v) -> (out, lse2)
    q (H, Lq, d), k and v (H, Lk, d); out (H, Lq, d) is normalised over the keys
    of this shard only.  lse2 (H, Lq) is the log-sum-exp of the scores in base 2,
    log2(sum_j exp(s_j)), since that is what our kernel hands back.

merge(outs, lses2) -> out
    outs (S, H, Lq, d), lses2 (S, H, Lq) of S shards; the result is attention
    over the keys of all shards together

sharded_attention(q, k_shards, v_shards)
    lists of k and v, the shards may have different lengths.  The result equals
    softmax(q k^T / sqrt(d)) v with all shards concatenated.
"""
import math

import jax
import jax.numpy as jnp

LOG2E = math.log2(math.e)


@jax.jit
def attend_shard(q, k, v):
    s = jnp.einsum("hqd,hkd->hqk", q, k) * (LOG2E / math.sqrt(q.shape[-1]))
    top = s.max(axis=-1, keepdims=True)
    p = jnp.exp2(s - top)
    den = p.sum(axis=-1, keepdims=True)
    out = jnp.einsum("hqk,hkd->hqd", p / den, v)
    return out, (top + jnp.log2(den))[..., 0]


@jax.jit
def merge(outs, lses2):
    top = lses2.max(axis=0, keepdims=True)
    share = jnp.exp(lses2 - top)
    share = share / share.sum(axis=0, keepdims=True)
    return jnp.einsum("shq,shqd->hqd", share, outs)


def sharded_attention(q, k_shards, v_shards):
    parts = [attend_shard(q, k, v) for k, v in zip(k_shards, v_shards)]
    outs = jnp.stack([o for o, _ in parts])
    lses2 = jnp.stack([l for _, l in parts])
    return merge(outs, lses2)
