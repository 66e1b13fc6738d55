from functools import partial

import jax
import jax.numpy as jnp
from jax import lax

# flash-style forward pass written with lax.scan, so that XLA never sees the (n, n) matrix.
# shapes: q, k, v -> b h n d, as in the x-transformers world

NEG = -1e30


def exists(x):
    return x is not None


def _one_row_block(q, q_start, k_blocks, v_blocks, m_blocks, k_starts, causal):
    """q: b h r d. k_blocks: t b h c d"""
    b, h, r, d = q.shape

    def step(carry, xs):
        out, row_sum, row_max = carry
        k, v, mask, k_start = xs
        s = jnp.einsum('bhid,bhjd->bhij', q, k)
        keep = mask[:, None, None, :]
        if causal:
            i = q_start + jnp.arange(r)[:, None]
            j = k_start + jnp.arange(k.shape[2])[None, :]
            keep = keep & (i >= j)
        s = jnp.where(keep, s, NEG)

        new_max = jnp.maximum(row_max, s.max(-1, keepdims=True))
        p = jnp.where(keep, jnp.exp(s - new_max), 0.)
        alpha = jnp.exp(row_max - new_max)

        row_sum = row_sum * alpha + p.sum(-1, keepdims=True)
        out = out + jnp.einsum('bhij,bhjd->bhid', p, v)
        return (out, row_sum, new_max), None

    init = (
        jnp.zeros((b, h, r, v_blocks.shape[-1]), q.dtype),
        jnp.zeros((b, h, r, 1), q.dtype),
        jnp.full((b, h, r, 1), NEG, q.dtype),
    )
    (out, row_sum, _), _ = lax.scan(step, init, (k_blocks, v_blocks, m_blocks, k_starts))
    return out / jnp.maximum(row_sum, 1e-10)


def _blocks(x, axis, size):
    n = x.shape[axis] // size
    x = x.reshape(x.shape[:axis] + (n, size) + x.shape[axis + 1:])
    return jnp.moveaxis(x, axis, 0)


@partial(jax.jit, static_argnames=('causal', 'q_block', 'k_block'))
def flash_attention(q, k, v, mask=None, causal=False, q_block=16, k_block=16):
    """exact attention, softmax(q k^T / sqrt(d)) v

    mask: b j, True = keep. With causal=True the lengths of q and k must agree.
    """
    b, h, n, d = q.shape
    j = k.shape[2]
    if causal:
        assert n == j
    q_block, k_block = min(q_block, n), min(k_block, j)
    pad_q, pad_k = -n % q_block, -j % k_block

    if not exists(mask):
        mask = jnp.ones((b, j), bool)
    q = jnp.pad(q * d ** -0.5, ((0, 0), (0, 0), (0, pad_q), (0, 0)))
    k = jnp.pad(k, ((0, 0), (0, 0), (0, pad_k), (0, 0)))
    v = jnp.pad(v, ((0, 0), (0, 0), (0, pad_k), (0, 0)))
    mask = jnp.pad(mask, ((0, 0), (0, pad_k)))

    k_blocks, v_blocks = _blocks(k, 2, k_block), _blocks(v, 2, k_block)
    m_blocks = _blocks(mask, 1, k_block)
    k_starts = jnp.arange(0, j + pad_k, k_block)

    def rows(_, xs):
        qb, start = xs
        return None, _one_row_block(qb, start, k_blocks, v_blocks, m_blocks, k_starts, causal)

    _, out = lax.scan(rows, None, (_blocks(q, 2, q_block), jnp.arange(0, n + pad_q, q_block)))
    out = jnp.moveaxis(out, 0, 2).reshape(b, h, n + pad_q, -1)
    return out[:, :, :n]
