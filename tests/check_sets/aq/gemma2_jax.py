"""Gemma-2 type attention, functions over params; heads kept apart in the weights."""
from typing import NamedTuple, Optional
import jax
import jax.numpy as jnp


class AttnConfig(NamedTuple):
    heads: int
    kv_heads: int
    head_dim: int
    window: Optional[int] = None       # number of keys a query sees, itself included
    logit_cap: Optional[float] = 5.0


def init(key, cfg, width):
    a, b, c, d = jax.random.split(key, 4)
    std = width ** -0.5
    return {
        "q": jax.random.normal(a, (cfg.heads, width, cfg.head_dim)) * std,
        "k": jax.random.normal(b, (cfg.kv_heads, width, cfg.head_dim)) * std,
        "v": jax.random.normal(c, (cfg.kv_heads, width, cfg.head_dim)) * std,
        "o": jax.random.normal(d, (cfg.heads, cfg.head_dim, width)) * std,
    }


def rope(x, pos):
    d = x.shape[-1]
    inv = 10000.0 ** (-jnp.arange(0, d, 2) / d)
    ang = pos[:, None] * inv
    c, s = jnp.cos(ang), jnp.sin(ang)
    a, b = jnp.split(x, 2, axis=-1)
    return jnp.concatenate([a * c - b * s, b * c + a * s], -1)


def make_bias(length, window, tokens_real, dtype):
    """[B, 1, 1, L, L], zero where key j may be seen from i and the lowest finite number elsewhere"""
    i = jnp.arange(length)[:, None]
    j = jnp.arange(length)[None, :]
    ok = j <= i
    if window is not None:
        ok &= i - j < window
    ok = ok[None] & tokens_real[:, None, :]
    return jnp.where(ok, 0.0, jnp.finfo(dtype).min).astype(dtype)[:, None, None]


def soft_cap(x, cap):
    return x if cap is None else cap * jnp.tanh(x / cap)


def attention(params, cfg, x, tokens_real):
    """x [B, L, W]; tokens_real [B, L] bool, sentences are padded at the end. Logits are soft-capped."""
    B, L, _ = x.shape
    pos = jnp.arange(L)
    q = rope(jnp.einsum("blw,hwd->bhld", x, params["q"]), pos) * cfg.head_dim ** -0.5
    k = rope(jnp.einsum("blw,gwd->bgld", x, params["k"]), pos)
    v = jnp.einsum("blw,gwd->bgld", x, params["v"])
    q = q.reshape(B, cfg.kv_heads, cfg.heads // cfg.kv_heads, L, cfg.head_dim)
    logits = jnp.einsum("bgrid,bgjd->bgrij", q, k)
    logits = logits + make_bias(L, cfg.window, tokens_real, logits.dtype)
    logits = soft_cap(logits, cfg.logit_cap)
    probs = jax.nn.softmax(logits, axis=-1)
    o = jnp.einsum("bgrij,bgjd->bgrid", probs, v).reshape(B, cfg.heads, L, cfg.head_dim)
    return jnp.einsum("bhld,hdw->blw", o, params["o"])


def rms_norm(x, scale, eps=1e-6):
    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + eps) * (1 + scale)
