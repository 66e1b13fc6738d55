"""Ring attention, simulated on one device with lax.scan.

Keys and values are cut into `n_shards` pieces that travel around the ring. A
local kernel gives, for each piece, the normalised output and its log-sum-exp;
the pieces are folded together as they arrive. Layout [batch, heads, length, dim].
"""
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp


class Partial(NamedTuple):
    out: jax.Array   # [b, h, q, d], normalised within the piece
    lse: jax.Array   # [b, h, q], log of the sum of exp of the logits (natural log)


LOG2E = 1.4426950408889634


def local_kernel(q, k, v, q_pos, k_pos, causal):
    """One q piece against one kv piece. Uses exp2, as the device kernel does."""
    logits = jnp.einsum("bhqd,bhkd->bhqk", q, k) * (q.shape[-1] ** -0.5 * LOG2E)
    if causal:
        logits = jnp.where(k_pos[None, :] <= q_pos[:, None], logits, -jnp.inf)
    peak = jnp.max(logits, axis=-1)
    peak0 = jnp.where(jnp.isfinite(peak), peak, 0.0)
    p = jnp.exp2(logits - peak0[..., None])
    total = p.sum(-1)
    out = jnp.einsum("bhqk,bhkd->bhqd", p, v) / jnp.where(total > 0, total, 1.0)[..., None]
    return Partial(out, jnp.where(total > 0, peak0 + jnp.log2(jnp.maximum(total, 1e-37)), -jnp.inf))


def fold(a: Partial, b: Partial) -> Partial:
    lse = jnp.logaddexp(a.lse, b.lse)
    safe = jnp.where(jnp.isfinite(lse), lse, 0.0)
    wa = jnp.exp(a.lse - safe)[..., None]
    wb = jnp.exp(b.lse - safe)[..., None]
    return Partial(a.out * wa + b.out * wb, lse)


@partial(jax.jit, static_argnames=("n_shards", "causal"))
def ring_attention(q, k, v, n_shards=4, causal=True):
    b, h, n, d = k.shape
    assert n % n_shards == 0, "length must divide by the ring size"
    piece = n // n_shards
    split = lambda t: jnp.moveaxis(t.reshape(b, h, n_shards, piece, t.shape[-1]), 2, 0)
    ks, vs = split(k), split(v)
    starts = jnp.arange(n_shards) * piece
    q_pos = jnp.arange(q.shape[2]) + (n - q.shape[2])

    def visit(carry, xs):
        kk, vv, start = xs
        new = local_kernel(q, kk, vv, q_pos, start + jnp.arange(piece), causal)
        return fold(carry, new), None

    zero = Partial(
        jnp.zeros(q.shape[:-1] + v.shape[-1:], q.dtype),
        jnp.full(q.shape[:-1], -jnp.inf, q.dtype),
    )
    final, _ = jax.lax.scan(visit, zero, (ks, vs, starts))
    return final.out


def striped_order(n, n_shards):
    """Permutation that balances causal work over the ring (striped attention)."""
    return jnp.arange(n).reshape(-1, n_shards).T.reshape(-1)


def comm_bytes(batch, heads, length, dim, n_shards, itemsize=2):
    return 2 * batch * heads * (length // n_shards) * dim * itemsize * (n_shards - 1)
