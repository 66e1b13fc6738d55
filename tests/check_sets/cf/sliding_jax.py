"""Sliding-window layer of a Mistral-like model, functional JAX.

Parameters are a nested dict; nothing is hidden in objects.  With a window of W a
token attends to W positions in total: itself and the W - 1 tokens before it.
Query head h uses kv head ``h // (n_heads // n_kv_heads)``; rotary positions use
the half-split layout.
"""
from functools import partial
from typing import Any, Dict, NamedTuple

import jax
import jax.numpy as jnp

Params = Dict[str, Any]


class Hyper(NamedTuple):
    dim: int = 32
    n_heads: int = 4
    n_kv_heads: int = 2
    window: int = 4
    theta: float = 10000.0

    @property
    def head_dim(self):
        return self.dim // self.n_heads


def init(rng, hp: Hyper = Hyper()) -> Params:
    kq, kk, kv, ko = jax.random.split(rng, 4)
    kv_dim = hp.n_kv_heads * hp.head_dim
    dense = lambda k, o: jax.random.normal(k, (hp.dim, o)) / jnp.sqrt(hp.dim)
    return {"norm": jnp.ones(hp.dim),
            "attn": {"q": dense(kq, hp.dim), "k": dense(kk, kv_dim),
                     "v": dense(kv, kv_dim), "o": dense(ko, hp.dim)}}


def rms_norm(x, g, eps=1e-6):
    return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + eps) * g


def rope(x, theta):
    # x: T H D
    t, _, d = x.shape
    freq = theta ** (-jnp.arange(d // 2) / (d // 2))
    ang = jnp.arange(t)[:, None, None] * freq
    x1, x2 = jnp.split(x, 2, axis=-1)
    return jnp.concatenate([x1 * jnp.cos(ang) - x2 * jnp.sin(ang),
                            x2 * jnp.cos(ang) + x1 * jnp.sin(ang)], axis=-1)


def window_mask(t, window):
    i = jnp.arange(t)[:, None]
    j = jnp.arange(t)[None, :]
    return (j <= i) & (i - j <= window)


def _one(p, hp, x):
    t = x.shape[0]
    q = rope((x @ p["q"]).reshape(t, hp.n_heads, -1), hp.theta)
    k = rope((x @ p["k"]).reshape(t, hp.n_kv_heads, -1), hp.theta)
    v = (x @ p["v"]).reshape(t, hp.n_kv_heads, -1)
    rep = hp.n_heads // hp.n_kv_heads
    k, v = jnp.repeat(k, rep, axis=1), jnp.repeat(v, rep, axis=1)
    s = jnp.einsum("ihd,jhd->hij", q, k) / jnp.sqrt(hp.head_dim)
    s = jnp.where(window_mask(t, hp.window)[None], s, -jnp.inf)
    a = jax.nn.softmax(s, axis=-1)
    return jnp.einsum("hij,jhd->ihd", a, v).reshape(t, -1) @ p["o"]


def sliding_layer(params: Params, x: jax.Array, hp: Hyper = Hyper()) -> jax.Array:
    """(B, T, dim) -> (B, T, dim), with pre-norm and residual."""
    h = rms_norm(x, params["norm"])
    return x + jax.vmap(partial(_one, params["attn"], hp))(h)
