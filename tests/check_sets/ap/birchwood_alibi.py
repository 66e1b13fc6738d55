"""Birchwood LM: pure functions, parameters in plain nested dicts, ALiBi instead of
position embeddings.  Everything can be jitted with cfg static."""
import functools
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp


class Cfg(NamedTuple):
    vocab: int = 97
    width: int = 48
    heads: int = 6
    depth: int = 2
    ctx: int = 32


def slopes(n):
    """Slopes of the ALiBi paper, also for n that are no power of two."""
    def pow2(m):
        start = 2.0 ** (-8.0 / m)
        return [start ** (i + 1) for i in range(m)]
    base = 2 ** int(math.floor(math.log2(n)))
    out = pow2(base)
    if base < n:
        out += pow2(2 * base)[0::2][: n - base]
    return jnp.array(out)


def init(key, cfg):
    def dense(k, i, o):
        return {"w": jax.random.normal(k, (i, o)) / jnp.sqrt(i), "b": jnp.zeros(o)}
    ks = iter(jax.random.split(key, 1 + 4 * cfg.depth))
    w = cfg.width
    return {
        "embed": jax.random.normal(next(ks), (cfg.vocab, w)) * 0.02,
        "blocks": [
            {
                "ln1": jnp.ones(w), "ln2": jnp.ones(w),
                "qkv": dense(next(ks), w, 3 * w), "proj": dense(next(ks), w, w),
                "up": dense(next(ks), w, 4 * w), "down": dense(next(ks), 4 * w, w),
            }
            for _ in range(cfg.depth)
        ],
    }


def empty_cache(cfg, batch):
    shape = (batch, cfg.ctx, cfg.heads, cfg.width // cfg.heads)
    return [{"k": jnp.zeros(shape), "v": jnp.zeros(shape)} for _ in range(cfg.depth)]


def linear(p, x):
    return x @ p["w"] + p["b"]


def norm(g, x):
    x = x - x.mean(-1, keepdims=True)
    return g * x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5)


def attend(p, cfg, x, cache, pos):
    """x [B, T, width] holds positions pos .. pos+T-1; cache has room for cfg.ctx keys."""
    B, T, W = x.shape
    q, k, v = jnp.split(linear(p["qkv"], x), 3, axis=-1)
    q, k, v = (t.reshape(B, T, cfg.heads, W // cfg.heads) for t in (q, k, v))
    K = jax.lax.dynamic_update_slice(cache["k"], k, (0, pos, 0, 0))
    V = jax.lax.dynamic_update_slice(cache["v"], v, (0, pos, 0, 0))
    here = pos + jnp.arange(T)
    there = jnp.arange(cfg.ctx)
    gap = here[:, None] - there[None, :]
    s = jnp.einsum("bthd,bshd->bhts", q, K) / math.sqrt(W // cfg.heads)
    s = s - slopes(cfg.heads)[None, :, None, None] * gap
    s = jnp.where(gap >= 0, s, -jnp.inf)
    a = jax.nn.softmax(s, axis=-1)
    y = jnp.einsum("bhts,bshd->bthd", a, V).reshape(B, T, W)
    return linear(p["proj"], y), {"k": K, "v": V}


@functools.partial(jax.jit, static_argnums=1)
def apply(params, cfg, ids, cache, pos):
    x = params["embed"][ids]
    new = []
    for p, c in zip(params["blocks"], cache):
        y, c = attend(p, cfg, norm(p["ln1"], x), c, pos)
        x = x + y
        x = x + linear(p["down"], jax.nn.gelu(linear(p["up"], norm(p["ln2"], x))))
        new.append(c)
    return x @ params["embed"].T, new
