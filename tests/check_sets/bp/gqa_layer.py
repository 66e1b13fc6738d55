# jax inference code for a small Mistral-like model (no flax, weights = nested dict)
from typing import NamedTuple

import jax
import jax.numpy as jnp


class Params(NamedTuple):
    wq: jax.Array  # [D, H, d]
    wk: jax.Array  # [D, G, d]
    wv: jax.Array  # [D, G, d]
    wo: jax.Array  # [H, d, D]


class Cache(NamedTuple):
    k: jax.Array  # [B, S_max, G, d]
    v: jax.Array
    length: int


def init(key, D=32, H=4, G=2, d=8):
    ks = jax.random.split(key, 4)
    n = lambda k, *s: jax.random.normal(k, s) / jnp.sqrt(s[0])
    return Params(n(ks[0], D, H, d), n(ks[1], D, G, d), n(ks[2], D, G, d),
                  jax.random.normal(ks[3], (H, d, D)) / jnp.sqrt(H * d))


def empty_cache(B, S, G, d, dtype=jnp.float32):
    z = jnp.zeros((B, S, G, d), dtype)
    return Cache(z, z, 0)


def rope(x, pos, theta=10000.0):
    """x [B, T, N, d], half-split layout, pos [T]"""
    d = x.shape[-1]
    inv = theta ** (-jnp.arange(0, d, 2) / d)
    ang = pos[:, None] * inv[None]
    c, s = jnp.cos(ang)[None, :, None], jnp.sin(ang)[None, :, None]
    a, b = jnp.split(x, 2, axis=-1)
    return jnp.concatenate([a * c - b * s, b * c + a * s], -1).astype(x.dtype)


def grouped_query_attention(p: Params, x, cache: Cache = None):
    """x [B, T, D] new tokens -> (y [B, T, D], cache).  Causal, half-split RoPE.

    H query heads share G key/value heads in the usual order of the checkpoints:
    the first H // G query heads belong to kv head 0, the next H // G to kv head 1, ...
    """
    B, T, _ = x.shape
    start = 0 if cache is None else cache.length
    pos = start + jnp.arange(T)
    q = rope(jnp.einsum("btD,Dhd->bthd", x, p.wq), pos)
    k = rope(jnp.einsum("btD,Dgd->btgd", x, p.wk), pos)
    v = jnp.einsum("btD,Dgd->btgd", x, p.wv)
    if cache is not None:
        ck = jax.lax.dynamic_update_slice(cache.k, k, (0, start, 0, 0))
        cv = jax.lax.dynamic_update_slice(cache.v, v, (0, start, 0, 0))
        cache = Cache(ck, cv, start + T)
        k, v = ck, cv
    rep = q.shape[2] // k.shape[2]
    k = jnp.tile(k, (1, 1, rep, 1))
    v = jnp.tile(v, (1, 1, rep, 1))
    s = jnp.einsum("bthd,bshd->bhts", q, k) * q.shape[-1] ** -0.5
    ok = jnp.arange(k.shape[1])[None, :] <= pos[:, None]
    s = jnp.where(ok[None, None], s.astype(jnp.float32), -jnp.inf)
    w = jax.nn.softmax(s, axis=-1).astype(x.dtype)
    y = jnp.einsum("bhts,bshd->bthd", w, v)
    return jnp.einsum("bthd,hdD->btD", y, p.wo), cache


def rms_norm(x, g, eps=1e-6):
    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + eps) * g


def layer(weights, x, cache=None):
    a, cache = grouped_query_attention(weights["attn"], rms_norm(x, weights["g1"]), cache)
    x = x + a
    h = rms_norm(x, weights["g2"])
    h = jax.nn.silu(h @ weights["gate"]) * (h @ weights["up"])
    return x + h @ weights["down"], cache
