"""Memory-efficient attention for long climate series (lax.scan over key blocks)."""
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax


class Carry(NamedTuple):
    acc: jax.Array   # [b, h, q, d]
    row_max: jax.Array  # [b, h, q]
    row_sum: jax.Array  # [b, h, q]


def _pad_to(x, multiple, axis):
    extra = (-x.shape[axis]) % multiple
    widths = [(0, 0)] * x.ndim
    widths[axis] = (0, extra)
    return jnp.pad(x, widths)


@partial(jax.jit, static_argnames=("block", "causal"))
def blockwise_attention(q, k, v, valid=None, *, block=16, causal=False):
    """q: [b, h, q, d]; k, v: [b, h, t, d]; valid: bool [b, t], True = use this step.

    With ``causal`` the queries are the last ``q`` steps of the ``t`` keys.
    Rows that may see nothing come out as zeros.
    """
    b, h, nq, d = q.shape
    wide = jnp.promote_types(q.dtype, jnp.float32)
    nk = k.shape[2]
    if valid is None:
        valid = jnp.ones((b, nk), bool)
    k, v = _pad_to(k, block, 2), _pad_to(v, block, 2)
    valid = _pad_to(valid, block, 1)
    nb = k.shape[2] // block
    kb = jnp.moveaxis(k.reshape(b, h, nb, block, d), 2, 0)
    vb = jnp.moveaxis(v.reshape(b, h, nb, block, d), 2, 0)
    mb = jnp.moveaxis(valid.reshape(b, nb, block), 1, 0)
    q = q * d ** -0.5
    q_pos = jnp.arange(nq) + (nk - nq)

    def step(carry, xs):
        i, kc, vc, mc = xs
        s = jnp.einsum("bhqd,bhkd->bhqk", q, kc, preferred_element_type=wide)
        ok = mc[:, None, None, :]
        if causal:
            k_pos = i * block + jnp.arange(block)
            ok = ok & (k_pos[None, :] <= q_pos[:, None])[None, None]
        s = jnp.where(ok, s, -jnp.inf)
        new_max = jnp.maximum(carry.row_max, s.max(-1))
        safe = jnp.where(jnp.isfinite(new_max), new_max, 0.0)
        p = jnp.exp(s - safe[..., None])
        fix = jnp.exp(carry.row_max - safe)
        acc = carry.acc * fix[..., None] + jnp.einsum("bhqk,bhkd->bhqd", p, vc)
        return Carry(acc, new_max, carry.row_sum * fix + p.sum(-1)), None

    init = Carry(
        jnp.zeros((b, h, nq, d), wide),
        jnp.full((b, h, nq), -jnp.inf, wide),
        jnp.zeros((b, h, nq), wide),
    )
    out, _ = lax.scan(step, init, (jnp.arange(nb), kb, vb, mb))
    total = out.row_sum[..., None]
    return jnp.where(total > 0, out.acc / jnp.where(total > 0, total, 1.0), 0.0).astype(v.dtype)


def seasonal_features(t, period=12.0, n=2):
    k = jnp.arange(1, n + 1)
    ang = 2 * jnp.pi * t[:, None] * k / period
    return jnp.concatenate([jnp.sin(ang), jnp.cos(ang)], axis=-1)


def anomaly(series, climatology):
    months = jnp.arange(series.shape[-1]) % climatology.shape[-1]
    return series - climatology[..., months]
