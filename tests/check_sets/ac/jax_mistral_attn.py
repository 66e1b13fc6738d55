"""Mistral-like attention layer in plain JAX: multi-query kv, sliding window, rotary embeddings.

Parameters are a dict of arrays; the functions work on one sequence, use vmap for batches.
"""
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp


class Config(NamedTuple):
    d_model: int = 32
    n_heads: int = 4
    head_dim: int = 8
    window: int = 4          # number of tokens a position can see, the position itself included
    theta: float = 10000.0


def init(key, cfg: Config):
    kq, kk, kv, ko = jax.random.split(key, 4)
    s = cfg.d_model ** -0.5
    return {
        "wq": jax.random.normal(kq, (cfg.d_model, cfg.n_heads, cfg.head_dim)) * s,
        "wk": jax.random.normal(kk, (cfg.d_model, cfg.head_dim)) * s,
        "wv": jax.random.normal(kv, (cfg.d_model, cfg.head_dim)) * s,
        "wo": jax.random.normal(ko, (cfg.n_heads, cfg.head_dim, cfg.d_model)) * s,
    }


def apply_rope(x, pos, theta):
    # x (T, ..., D), pairs are (0,1), (2,3), ...
    d = x.shape[-1]
    freq = theta ** (-jnp.arange(0, d, 2) / d)
    ang = pos[:, None] * freq[None, :]
    ang = ang.reshape(ang.shape[:1] + (1,) * (x.ndim - 2) + ang.shape[1:])
    x1, x2 = x[..., 0::2], x[..., 1::2]
    r1 = x1 * jnp.cos(ang) - x2 * jnp.sin(ang)
    r2 = x1 * jnp.sin(ang) + x2 * jnp.cos(ang)
    return jnp.stack([r1, r2], axis=-1).reshape(x.shape)


def sliding_mask(T, window):
    i = jnp.arange(T)[:, None]
    j = jnp.arange(T)[None, :]
    return (j <= i) & (i - j <= window)


def attend(params, x, cfg: Config):
    """x: (T, d_model) -> (T, d_model)"""
    T = x.shape[0]
    pos = jnp.arange(T)
    q = apply_rope(jnp.einsum("td,dhk->thk", x, params["wq"]), pos, cfg.theta)
    k = apply_rope(x @ params["wk"], pos, cfg.theta)
    v = x @ params["wv"]
    scores = jnp.einsum("ihk,jk->hij", q, k) / jnp.sqrt(cfg.head_dim)
    scores = jnp.where(sliding_mask(T, cfg.window)[None], scores, -jnp.inf)
    w = jax.nn.softmax(scores, axis=-1)
    ctx = jnp.einsum("hij,jk->ihk", w, v)
    return jnp.einsum("ihk,hkd->id", ctx, params["wo"])


@partial(jax.jit, static_argnums=2)
def attend_batch(params, x, cfg: Config):
    return jax.vmap(lambda s: attend(params, s, cfg))(x)
