"""Gemma-2 flavoured attention, functional JAX.

* grouped queries, RoPE on halves
* logits soft-capped before masking
* odd layers are local: a query sees ``window`` keys, itself included
"""
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp


class Hyper(NamedTuple):
    d_model: int = 32
    n_q: int = 4
    n_kv: int = 2
    d_head: int = 8
    cap: float = 50.0
    window: int = 3
    query_scalar: float = 8.0  # query_pre_attn_scalar


class Params(NamedTuple):
    wq: jax.Array  # [N, D, H]
    wkv: jax.Array  # [2, K, D, H]
    wo: jax.Array  # [N, H, D]


def init(key, hp: Hyper) -> Params:
    a, b, c = jax.random.split(key, 3)
    s = hp.d_model ** -0.5
    return Params(
        s * jax.random.normal(a, (hp.n_q, hp.d_model, hp.d_head)),
        s * jax.random.normal(b, (2, hp.n_kv, hp.d_model, hp.d_head)),
        s * jax.random.normal(c, (hp.n_q, hp.d_head, hp.d_model)),
    )


def rope(x, pos, base=10_000.0):
    """x [B, L, N, H], pos [B, L]"""
    half = x.shape[-1] // 2
    ts = base ** (2.0 * jnp.arange(half) / x.shape[-1])
    ang = (pos[..., None] / ts)[:, :, None, :]
    lo, hi = jnp.split(x, 2, axis=-1)
    return jnp.concatenate(
        [lo * jnp.cos(ang) - hi * jnp.sin(ang), hi * jnp.cos(ang) + lo * jnp.sin(ang)], -1
    ).astype(x.dtype)


def make_mask(pos, segment_ids, window=None):
    """True = visible; tokens of another packed document are invisible."""
    i, j = pos[:, :, None], pos[:, None, :]
    ok = (j <= i) & (segment_ids[:, :, None] == segment_ids[:, None, :])
    if window is not None:
        ok &= j > i - window
    return ok


@partial(jax.jit, static_argnames=("hp", "local"))
def attend(params: Params, x, pos, segment_ids, hp: Hyper = Hyper(), local: bool = False):
    """x [B, L, D] -> [B, L, D].  ``pos`` is absolute in the packed row."""
    b, n, _ = x.shape
    q = jnp.einsum("bld,ndh->blnh", x, params.wq)
    k, v = jnp.einsum("bsd,ckdh->cbskh", x, params.wkv)
    q = rope(q, pos) * hp.query_scalar ** -0.5
    k = rope(k, pos)

    q = q.reshape(b, n, hp.n_kv, hp.n_q // hp.n_kv, hp.d_head)
    logits = jnp.einsum("blkgh,bskh->bkgls", q, k)
    logits = jnp.tanh(logits / hp.cap) * hp.cap
    mask = make_mask(pos, segment_ids, hp.window if local else None)
    logits = jnp.where(mask[:, None, None], logits, -2.3819763e38)
    probs = jax.nn.softmax(logits, axis=-1).astype(x.dtype)
    out = jnp.einsum("bkgls,bskh->blkgh", probs, v)
    return jnp.einsum("blnh,nhd->bld", out.reshape(b, n, hp.n_q, hp.d_head), params.wo)
