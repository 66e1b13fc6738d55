"""Memory-efficient attention for long-context fine-tuning (one device, lax.scan over KV chunks).

Used by the trainer when `attn_impl: blockwise` is set in the config.
"""
import functools
from typing import NamedTuple, Optional

import jax
import jax.numpy as jnp
from jax import lax

NEG = -1e30


class Carry(NamedTuple):
    acc: jax.Array      # (B, H, Tq, D) unnormalised output
    row_max: jax.Array  # (B, H, Tq)
    row_sum: jax.Array  # (B, H, Tq)


def _pad_to(x, axis, multiple):
    extra = -x.shape[axis] % multiple
    if extra == 0:
        return x
    width = [(0, 0)] * x.ndim
    width[axis] = (0, extra)
    return jnp.pad(x, width)


@functools.partial(jax.jit, static_argnames=("causal", "chunk"))
def blockwise_attention(q, k, v, segment_valid: Optional[jax.Array] = None, *, causal=True, chunk=128):
    """softmax(q kT / sqrt(D)) v without the (Tq, Tk) matrix.

    q (B, Tq, H, D), k and v (B, Tk, H, D). With `causal` the last query is
    aligned with the last key. segment_valid (B, Tk) is True for real keys.
    Queries which may look at nothing get zeros.
    """
    B, Tq, H, D = q.shape
    Tk = k.shape[1]
    scale = D ** -0.5

    if segment_valid is None:
        segment_valid = jnp.ones((B, Tk), dtype=bool)
    k, v = _pad_to(k, 1, chunk), _pad_to(v, 1, chunk)
    segment_valid = _pad_to(segment_valid, 1, chunk)
    n = k.shape[1] // chunk

    split = lambda x: jnp.moveaxis(x.reshape(B, n, chunk, *x.shape[2:]), 1, 0)
    blocks = (split(k), split(v), split(segment_valid), jnp.arange(n) * chunk)

    qf = q.astype(jnp.float32) * scale
    q_pos = jnp.arange(Tq) + (Tk - Tq)

    @jax.checkpoint
    def step(carry, block):
        kb, vb, ok, start = block
        s = jnp.einsum("bqhd,bkhd->bhqk", qf, kb.astype(jnp.float32))
        keep = ok[:, None, None, :]
        if causal:
            keep = keep & (start + jnp.arange(chunk) <= q_pos[:, None])[None, None]
        s = jnp.where(keep, s, NEG)
        new_max = jnp.maximum(carry.row_max, s.max(axis=-1))
        # where() once more: a block that is all NEG has exp(NEG - NEG) = 1
        p = jnp.where(keep, jnp.exp(s - new_max[..., None]), 0.0)
        fix = jnp.exp(carry.row_max - new_max)
        acc = carry.acc * fix[..., None] + jnp.einsum("bhqk,bkhd->bhqd", p, vb.astype(jnp.float32))
        row_sum = carry.row_sum * fix + p.sum(axis=-1)
        return Carry(acc, new_max, row_sum), None

    init = Carry(jnp.zeros((B, H, Tq, D), jnp.float32),
                 jnp.full((B, H, Tq), NEG, jnp.float32),
                 jnp.zeros((B, H, Tq), jnp.float32))
    final, _ = lax.scan(step, init, blocks)
    total = final.row_sum[..., None]
    out = jnp.where(total > 0, final.acc / jnp.where(total > 0, total, 1.0), 0.0)
    return jnp.swapaxes(out, 1, 2).astype(q.dtype)


def attention_layer(params, x, n_heads, *, chunk=128):
    B, T, C = x.shape
    qkv = x @ params["qkv"]
    q, k, v = jnp.split(qkv.reshape(B, T, 3 * n_heads, C // n_heads), 3, axis=2)
    y = blockwise_attention(q, k, v, chunk=chunk)
    return y.reshape(B, T, C) @ params["out"]
