"""Gemma-2 attention as pure JAX functions over a params dict.

Shapes: x [B, T, D]; params["q"] [N, D, H]; params["kv"] [2, K, D, H]; params["o"] [N, H, D].
Attention logits are soft-capped, *then* masked.
"""
import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp

K_MASK = -2.3819763e38


class GemmaCfg(NamedTuple):
    num_heads: int = 4
    num_kv: int = 2
    head_dim: int = 8
    query_pre_attn_scalar: float = 16.0    # 27B: d_model / num_heads, not head_dim
    cap: float = 50.0
    base: float = 10_000.0


def init(key, d_model, cfg: GemmaCfg):
    a, b, c = jax.random.split(key, 3)
    f = d_model ** -0.5
    return {
        "q": jax.random.normal(a, (cfg.num_heads, d_model, cfg.head_dim)) * f,
        "kv": jax.random.normal(b, (2, cfg.num_kv, d_model, cfg.head_dim)) * f,
        "o": jax.random.normal(c, (cfg.num_heads, cfg.head_dim, d_model)) * f,
    }


def rope(x, positions, base):
    # x [B,T,N,H], halves convention
    h = x.shape[-1] // 2
    timescale = base ** (jnp.arange(h) / h)
    ang = positions[:, :, None, None] / timescale
    s, c = jnp.sin(ang), jnp.cos(ang)
    a, b = jnp.split(x, 2, axis=-1)
    return jnp.concatenate([a * c - b * s, b * c + a * s], axis=-1)


@functools.partial(jax.jit, static_argnames="cfg")
def gemma_attention(params, x, positions, attn_mask, cfg: GemmaCfg = GemmaCfg()):
    """attn_mask [B, T, T], True = may look. positions [B, T] absolute."""
    q = jnp.einsum("btd,ndh->btnh", x, params["q"])
    k, v = jnp.einsum("bsd,ckdh->cbskh", x, params["kv"])
    q = rope(q, positions, cfg.base) * cfg.query_pre_attn_scalar ** -0.5
    k = rope(k, positions, cfg.base)
    b, t, n, h = q.shape
    q = q.reshape(b, t, cfg.num_kv, n // cfg.num_kv, h)
    logits = jnp.einsum("btkgh,bskh->bkgts", q, k)
    logits = jnp.tanh(logits / cfg.cap) * cfg.cap
    logits = jnp.where(attn_mask[:, None, None], logits, K_MASK)
    probs = jax.nn.softmax(logits.astype(jnp.float32), axis=-1).astype(x.dtype)
    enc = jnp.einsum("bkgts,bskh->btkgh", probs, v).reshape(b, t, n, h)
    return jnp.einsum("btnh,nhd->btd", enc, params["o"])


def make_causal_mask(valid):
    """valid [B, T] True = real token."""
    t = valid.shape[-1]
    return jnp.tril(jnp.ones((t, t), bool))[None] & valid[:, None, :]
