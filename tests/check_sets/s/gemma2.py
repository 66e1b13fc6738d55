"""Gemma 2 self-attention as pure functions over a nested dict of parameters."""
from dataclasses import dataclass
from typing import Optional

import jax
import jax.numpy as jnp


@dataclass(frozen=True)
class AttnCfg:
    n_q: int
    n_kv: int
    d: int
    pre_scalar: float            # queries are divided by sqrt(pre_scalar); 27B: hidden/n_q, not d
    softcap: Optional[float] = 50.0
    window: Optional[int] = None  # number of positions that are visible, own one included
    theta: float = 1e4


def init(key, dim, cfg):
    a, b, c, e = jax.random.split(key, 4)
    n = jax.nn.initializers.normal(dim ** -0.5)
    return {
        "q": {"w": n(a, (cfg.n_q, dim, cfg.d))},
        "kv": {"w": n(b, (2, cfg.n_kv, dim, cfg.d))},
        "o": {"w": n(c, (cfg.n_q, cfg.d, dim))},
    }


def rope(x, pos, theta):
    half = x.shape[-1] // 2
    ang = pos[..., None, None] / theta ** (jnp.arange(half) / half)
    lo, hi = jnp.split(x, 2, axis=-1)
    s, c = jnp.sin(ang), jnp.cos(ang)
    return jnp.concatenate([lo * c - hi * s, hi * c + lo * s], axis=-1)


def attend(params, cfg, x, pos, segment):
    """x (B, T, D), pos (B, T) int, segment (B, T) int: packed documents, 0 is padding.

    A token sees its own document up to itself. Padding rows come out as zero.
    """
    B, T, _ = x.shape
    q = jnp.einsum("btd,ndh->btnh", x, params["q"]["w"])
    k, v = jnp.einsum("bsd,cndh->cbsnh", x, params["kv"]["w"])
    q = rope(q, pos, cfg.theta) * cfg.pre_scalar ** -0.5
    k = rope(k, pos, cfg.theta)

    q = q.reshape(B, T, cfg.n_kv, cfg.n_q // cfg.n_kv, cfg.d)
    s = jnp.einsum("btkgh,bskh->bkgts", q, k)
    if cfg.softcap:
        s = jnp.tanh(s / cfg.softcap) * cfg.softcap

    i, j = pos[:, :, None], pos[:, None, :]
    ok = (segment[:, :, None] == segment[:, None, :]) & (segment[:, None, :] > 0) & (j <= i)
    if cfg.window is not None:
        ok &= i - j < cfg.window
    ok = ok[:, None, None]
    p = jax.nn.softmax(jnp.where(ok, s, jnp.finfo(s.dtype).min), axis=-1)
    p = jnp.where(ok, p, 0.0)

    y = jnp.einsum("bkgts,bskh->btkgh", p, v).reshape(B, T, cfg.n_q, cfg.d)
    return jnp.einsum("btnh,nhd->btd", y, params["o"]["w"])
