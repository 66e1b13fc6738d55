"""tilewise: blockwise exact attention with running maximum, in lax.scan.

Memory is O(L * block) instead of O(L^2).  Shapes: [batch, length, heads, dim].
segment ids: positions of different id do not see each other; id 0 is padding and is seen
by nobody (rows of padding give zeros).
"""
from functools import partial

import jax
import jax.numpy as jnp
from jax import lax

NEG = float("-inf")


def _pad_to(x, mult, axis, value=0):
    extra = -x.shape[axis] % mult
    if extra == 0:
        return x
    widths = [(0, 0)] * x.ndim
    widths[axis] = (0, extra)
    return jnp.pad(x, widths, constant_values=value)


def _tiles(x, size):
    b, l = x.shape[:2]
    return jnp.moveaxis(x.reshape(b, l // size, size, *x.shape[2:]), 1, 0)


@partial(jax.jit, static_argnames=("q_tile", "k_tile", "causal"))
def tiled_attention(q, k, v, q_seg=None, k_seg=None, *, q_tile=16, k_tile=16, causal=False):
    b, lq, h, d = q.shape
    lk = k.shape[1]
    q_seg = jnp.ones((b, lq), jnp.int32) if q_seg is None else q_seg
    k_seg = jnp.ones((b, lk), jnp.int32) if k_seg is None else k_seg
    shift = lk - lq                       # causal: last query looks at last key
    scale = d ** -0.5
    qt = _tiles(_pad_to(q, q_tile, 1), q_tile)
    kt = _tiles(_pad_to(k, k_tile, 1), k_tile)
    vt = _tiles(_pad_to(v, k_tile, 1), k_tile)
    qs = _tiles(_pad_to(q_seg, q_tile, 1), q_tile)
    ks = _tiles(_pad_to(k_seg, k_tile, 1), k_tile)

    def one_q_tile(args):
        qi, qb, sb = args
        rows = qi * q_tile + jnp.arange(q_tile) + shift

        def step(carry, inp):
            m, l, acc = carry
            ki, kb, vb, tb = inp
            cols = ki * k_tile + jnp.arange(k_tile)
            s = jnp.einsum("bqhd,bkhd->bhqk", qb.astype(jnp.float32), kb.astype(jnp.float32)) * scale
            ok = (sb[:, :, None] == tb[:, None, :]) & (tb[:, None, :] != 0)
            if causal:
                ok = ok & (cols[None, :] <= rows[:, None])[None]
            s = jnp.where(ok[:, None], s, NEG)
            m_new = jnp.maximum(m, s.max(-1))
            m_safe = jnp.where(m_new == NEG, 0.0, m_new)
            p = jnp.exp(s - m_safe[..., None])
            keep = jnp.exp(m - m_safe)
            l = l * keep + p.sum(-1)
            acc = acc * keep[..., None] + jnp.einsum("bhqk,bkhd->bhqd", p, vb.astype(jnp.float32))
            return (m_new, l, acc), None

        carry = (
            jnp.full((b, h, q_tile), NEG, jnp.float32),
            jnp.zeros((b, h, q_tile), jnp.float32),
            jnp.zeros((b, h, q_tile, v.shape[-1]), jnp.float32),
        )
        (_, l, acc), _ = lax.scan(step, carry, (jnp.arange(kt.shape[0]), kt, vt, ks))
        out = acc / jnp.where(l == 0, 1.0, l)[..., None]
        return jnp.swapaxes(out, 1, 2)

    out = lax.map(one_q_tile, (jnp.arange(qt.shape[0]), qt, qs))
    out = jnp.moveaxis(out, 0, 1).reshape(b, -1, h, v.shape[-1])
    return out[:, :lq].astype(q.dtype)


def packed_segments(lengths, total):
    """[3, 2], 6 -> [1 1 1 2 2 0]"""
    seg = jnp.zeros(total, jnp.int32)
    at = 0
    for i, n in enumerate(lengths):
        seg = seg.at[at:at + n].set(i + 1)
        at += n
    return seg
