"""gemmlet: the decoder layers of a (tiny, cap 5) Gemma-2-like checkpoint as plain JAX functions over a params dict.

Conventions (identical to the original): activations are [B, T, N, H]; even layers use a sliding
window, in which a token sees itself and the `window - 1` tokens before it; logits are capped with
tanh before anything is masked; masks are boolean, True = may be attended.
"""
from typing import NamedTuple

import jax
import jax.numpy as jnp


class Config(NamedTuple):
    n_heads: int = 4
    n_kv: int = 2
    head_dim: int = 16
    dim: int = 64
    window: int = 4
    attn_cap: float = 5.0


def rms(x, w, eps=1e-6):
    v = jnp.mean(jnp.square(x), -1, keepdims=True)
    return x * jax.lax.rsqrt(v + eps) * (1 + w)


def rope(x, pos, base=10000.0):
    """x [B, T, N, H], pos [T]; halves are rotated against each other."""
    h = x.shape[-1]
    inv = base ** (-jnp.arange(0, h, 2) / h)
    ang = pos[:, None] * inv[None]
    s, c = jnp.sin(ang)[None, :, None], jnp.cos(ang)[None, :, None]
    a, b = jnp.split(x, 2, -1)
    return jnp.concatenate([a * c - b * s, b * c + a * s], -1)


def build_mask(t, window=None):
    i = jnp.arange(t)[:, None]
    j = jnp.arange(t)[None]
    m = j <= i
    if window is not None:
        m &= i - j <= window
    return m


def attention(p, x, mask, cfg):
    b, t, _ = x.shape
    pos = jnp.arange(t)
    q = rope(jnp.einsum("btd,dnh->btnh", x, p["wq"]), pos)
    k = rope(jnp.einsum("btd,dnh->btnh", x, p["wk"]), pos)
    v = jnp.einsum("btd,dnh->btnh", x, p["wv"])
    q = q.reshape(b, t, cfg.n_kv, cfg.n_heads // cfg.n_kv, cfg.head_dim) * cfg.head_dim ** -0.5
    logits = jnp.einsum("btkgh,bskh->bkgts", q, k)
    logits = jnp.where(mask, logits, -2.3819763e38)
    logits = jnp.tanh(logits / cfg.attn_cap) * cfg.attn_cap
    probs = jax.nn.softmax(logits.astype(jnp.float32), axis=-1)
    o = jnp.einsum("bkgts,bskh->btkgh", probs, v)
    return jnp.einsum("btnh,nhd->btd", o.reshape(b, t, cfg.n_heads, cfg.head_dim), p["wo"])


def layer(p, x, i, cfg):
    mask = build_mask(x.shape[1], cfg.window if i % 2 == 0 else None)
    x = x + rms(attention(p["attn"], rms(x, p["n1"]), mask, cfg), p["n2"])
    h = rms(x, p["n3"])
    h = jax.nn.gelu(h @ p["gate"]) * (h @ p["up"])
    return x + rms(h @ p["down"], p["n4"])


def init_layer(key, cfg, ff=128):
    ks = jax.random.split(key, 7)
    d, n, g, h = cfg.dim, cfg.n_heads, cfg.n_kv, cfg.head_dim
    r = lambda k, *s: jax.random.normal(k, s) * s[0] ** -0.5
    return {
        "attn": {"wq": r(ks[0], d, n, h), "wk": r(ks[1], d, g, h), "wv": r(ks[2], d, g, h),
                 "wo": r(ks[3], n, h, d)},
        "gate": r(ks[4], d, ff), "up": r(ks[5], d, ff), "down": r(ks[6], ff, d),
        **{f"n{j}": jnp.zeros(d) for j in (1, 2, 3, 4)},
    }
