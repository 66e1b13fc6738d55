"""Attention over a ring of key/value shards (single host emulation of the TPU code).

The key/value shards are visited one after another with lax.scan; the running
maximum, denominator and numerator are carried along.  Layout [B, L, H, D].
Documents are packed: tokens see earlier tokens (and themselves) of their own segment
only.  Segment 0 is padding, its rows come out as zeros.
"""
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax


class Carry(NamedTuple):
    num: jax.Array      # [B, H, Q, D]
    den: jax.Array      # [B, H, Q]
    top: jax.Array      # [B, H, Q]


def shard(x, n):
    """[B, L, ...] -> [n, B, L/n, ...]"""
    b, l = x.shape[:2]
    if l % n:
        raise ValueError(f"length {l} does not divide into {n} shards")
    return jnp.moveaxis(x.reshape(b, n, l // n, *x.shape[2:]), 1, 0)


def visit(q, q_pos, q_seg, carry: Carry, block):
    k, v, k_pos, k_seg = block
    s = jnp.einsum("bqhd,bkhd->bhqk", q, k, preferred_element_type=jnp.float32)
    ok = (k_pos[None, None, :] <= q_pos[None, :, None])
    ok = ok & (q_seg[:, :, None] == k_seg[:, None, :]) & (q_seg[:, :, None] > 0)
    s = jnp.where(ok[:, None], s, -jnp.inf)
    top = jnp.maximum(carry.top, s.max(-1))
    safe = jnp.where(jnp.isfinite(top), top, 0.0)
    decay = jnp.exp(carry.top - safe)
    p = jnp.exp(s - safe[..., None])
    num = carry.num * decay[..., None] + jnp.einsum("bhqk,bkhd->bhqd", p, v.astype(jnp.float32))
    return Carry(num, carry.den * decay + p.sum(-1), top)


def ring_attention(q, k, v, segment_ids, shards: int = 4):
    """q, k, v [B, L, H, D]; segment_ids [B, L] int.  Returns [B, L, H, D] in q's dtype."""
    B, L, H, D = q.shape
    qs, ks, vs, segs = (shard(a, shards) for a in (q * D ** -0.5, k, v, segment_ids))
    pos = jnp.arange(L).reshape(shards, L // shards)

    def one_device(q, q_pos, q_seg, rank):
        n = q.shape[1]
        init = Carry(jnp.zeros((B, H, n, D)), jnp.zeros((B, H, n)), jnp.full((B, H, n), -jnp.inf))
        order = (rank - jnp.arange(shards)) % shards          # own shard first, then what arrives

        def body(carry, i):
            return visit(q, q_pos, q_seg, carry, (ks[i], vs[i], pos[i], segs[i])), None

        end, _ = lax.scan(body, init, order)
        out = end.num / jnp.where(end.den > 0, end.den, 1.0)[..., None]
        return jnp.moveaxis(out, 1, 2)

    out = lax.map(lambda a: one_device(*a), (qs, pos, segs, jnp.arange(shards)))
    return jnp.moveaxis(out, 0, 1).reshape(B, L, H, D).astype(q.dtype)


def init_layer(rng, width, heads):
    a, b = jax.random.split(rng)
    return {"qkv": jax.random.normal(a, (width, 3, heads, width // heads)) * width ** -0.5,
            "out": jax.random.normal(b, (heads, width // heads, width)) * width ** -0.5}


def layer(params, x, segment_ids, shards=4):
    q, k, v = jnp.moveaxis(jnp.einsum("blw,wchd->blchd", x, params["qkv"]), 2, 0)
    y = ring_attention(q, k, v, segment_ids, shards)
    return x + jnp.einsum("blhd,hdw->blw", y, params["out"])
