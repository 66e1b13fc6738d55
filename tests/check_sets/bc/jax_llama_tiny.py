"""Tiny Llama in pure JAX for a TPU workshop. Params are a plain pytree."""
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp


class AttnParams(NamedTuple):
    wq: jax.Array  # [D, H, K]
    wk: jax.Array  # [D, G, K]
    wv: jax.Array  # [D, G, K]
    wo: jax.Array  # [H, K, D]


def init(key, D=32, H=4, G=2, K=8):
    ks = jax.random.split(key, 4)
    n = lambda k, s, f: jax.random.normal(k, s) * f**-0.5
    return AttnParams(n(ks[0], (D, H, K), D), n(ks[1], (D, G, K), D),
                      n(ks[2], (D, G, K), D), n(ks[3], (H, K, D), H * K))


def rope(x, pos, theta=500_000.0):
    """x [B, T, N, K], pairs are neighbours (Meta layout), pos [B, T]."""
    K = x.shape[-1]
    freq = theta ** (-jnp.arange(0, K, 2) / K)
    ang = pos[..., None, None] * freq
    c, s = jnp.cos(ang), jnp.sin(ang)
    a, b = x[..., 0::2], x[..., 1::2]
    return jnp.stack([a * c - b * s, a * s + b * c], -1).reshape(x.shape)


@partial(jax.jit, static_argnames=("causal",))
def gqa_attention(p: AttnParams, x, pos, segment=None, causal=True):
    """x [B, T, D], pos [B, T]. segment [B, T] ints: packed documents do not see
    one another. Query head h belongs to kv head h // (H // G)."""
    B, T, _ = x.shape
    H, G = p.wq.shape[1], p.wk.shape[1]
    q = rope(jnp.einsum("btd,dhk->bthk", x, p.wq), pos)
    k = rope(jnp.einsum("btd,dgk->btgk", x, p.wk), pos)
    v = jnp.einsum("btd,dgk->btgk", x, p.wv)
    q = q.reshape(B, T, G, H // G, -1)
    s = jnp.einsum("btgrk,bsgk->bgrts", q, k).astype(jnp.float32)
    s = s / jnp.sqrt(q.shape[-1])
    keep = jnp.ones((1, T, T), bool)
    if causal:
        keep = jnp.tril(keep)
    if segment is not None:
        keep = keep & (segment[:, :, None] == segment[:, None, :])
    s = jnp.where(keep[:, None, None], s, jnp.finfo(s.dtype).min)
    w = jax.nn.softmax(s, axis=-1).astype(x.dtype)
    o = jnp.einsum("bgrts,bsgk->btgrk", w, v).reshape(B, T, H, -1)
    return jnp.einsum("bthk,hkd->btd", o, p.wo)
