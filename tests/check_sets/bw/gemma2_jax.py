"""Gemma 2 attention sub-layer as a pure function (JAX), params in a dict.

q is scaled by query_pre_attn_scalar**-0.5 (144 for 27B - it need not be the head
size). Logits are soft-capped and only then masked. Even layers are local: a token
sees itself and the window-1 tokens before it; odd layers are global.
"""
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

BIG_NEG = -2.3819763e38


class GemmaConfig(NamedTuple):
    width: int = 32
    num_heads: int = 4
    num_kv_heads: int = 2
    head_dim: int = 8
    query_pre_attn_scalar: float = 12.0
    attn_softcap: float = 50.0
    window: int = 3


def init_params(key, cfg):
    N, K, D, H = cfg.num_heads, cfg.num_kv_heads, cfg.width, cfg.head_dim
    a, b, c = jax.random.split(key, 3)
    return {
        "q_einsum": jax.random.normal(a, (N, D, H)) * D ** -0.5,
        "kv_einsum": jax.random.normal(b, (2, K, D, H)) * D ** -0.5,
        "attn_vec_einsum": jax.random.normal(c, (N, H, D)) * (N * H) ** -0.5,
        "pre_norm": jnp.zeros(D),
        "post_norm": jnp.zeros(D),
    }


def rms_norm(x, scale):
    var = jnp.mean(jnp.square(x), axis=-1, keepdims=True)
    return x * jax.lax.rsqrt(var + 1e-6) * (1 + scale)


def apply_rope(x, positions, base=10_000):
    # x: [B, L, N, H], positions: [B, L]
    half = x.shape[-1] // 2
    timescale = base ** (2 * jnp.arange(half) / x.shape[-1])
    ang = (positions[..., None] / timescale)[:, :, None, :]
    sin, cos = jnp.sin(ang), jnp.cos(ang)
    first, second = jnp.split(x, 2, axis=-1)
    return jnp.concatenate([first * cos - second * sin, second * cos + first * sin], -1)


@partial(jax.jit, static_argnames=("cfg", "local"))
def attention_block(params, x, segment_pos, valid, cfg=GemmaConfig(), local=True):
    """x [B, L, D], segment_pos [B, L] int, valid [B, L] bool (False = padding).

    Right-padded batches, so that every row keeps at least one key.
    """
    y = rms_norm(x, params["pre_norm"])
    q = jnp.einsum("BTD,NDH->BTNH", y, params["q_einsum"])
    k, v = jnp.einsum("BSD,CKDH->CBSKH", y, params["kv_einsum"])
    q = apply_rope(q, segment_pos) * cfg.query_pre_attn_scalar ** -0.5
    k = apply_rope(k, segment_pos)

    B, T, N, H = q.shape
    K = cfg.num_kv_heads
    q = q.reshape(B, T, K, N // K, H)
    logits = jnp.einsum("BTKGH,BSKH->BTKGS", q, k)
    logits = jnp.tanh(logits / cfg.attn_softcap) * cfg.attn_softcap

    i, j = segment_pos[:, :, None], segment_pos[:, None, :]
    mask = (j <= i) & valid[:, None, :]
    if local:
        mask &= j > i - cfg.window
    # a padded query whose window holds only padding looks at itself
    mask |= jnp.eye(T, dtype=bool)[None] & ~mask.any(-1, keepdims=True)
    logits = jnp.where(mask[:, :, None, None, :], logits, BIG_NEG)
    probs = jax.nn.softmax(logits, axis=-1).astype(v.dtype)
    enc = jnp.einsum("BTKGS,BSKH->BTKGH", probs, v).reshape(B, T, N, H)
    out = jnp.einsum("BTNH,NHD->BTD", enc, params["attn_vec_einsum"])
    return x + rms_norm(out, params["post_norm"])
