"""Llama-style decoder as pure functions over a params pytree."""
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp


class Config(NamedTuple):
    dim: int = 32
    n_layers: int = 2
    n_heads: int = 4
    n_kv_heads: int = 2
    ffn: int = 64
    vocab: int = 64
    max_len: int = 32
    theta: float = 10000.0

    @property
    def head_dim(self):
        return self.dim // self.n_heads


class KVCache(NamedTuple):
    k: jax.Array  # [batch, max_len, n_kv_heads, head_dim]
    v: jax.Array


def empty_cache(cfg, batch, dtype=jnp.float32):
    shape = (batch, cfg.max_len, cfg.n_kv_heads, cfg.head_dim)
    return [KVCache(jnp.zeros(shape, dtype), jnp.zeros(shape, dtype)) for _ in range(cfg.n_layers)]


def rms_norm(x, w, eps=1e-6):
    var = jnp.mean(jnp.square(x.astype(jnp.float32)), axis=-1, keepdims=True)
    return (x * jax.lax.rsqrt(var + eps)).astype(x.dtype) * w


def rope(x, positions, theta):
    """x [batch, seq, heads, d]; the two halves of d form the rotated pairs."""
    half = x.shape[-1] // 2
    freq = theta ** (-jnp.arange(half, dtype=jnp.float32) / half)
    ang = positions[:, None].astype(jnp.float32) * freq[None, :]
    cos, sin = jnp.cos(ang)[None, :, None, :], jnp.sin(ang)[None, :, None, :]
    x1, x2 = x[..., :half], x[..., half:]
    return jnp.concatenate([x1 * cos - x2 * sin, x2 * cos + x1 * sin], axis=-1).astype(x.dtype)


def cached_attention(params, x, cache, start, cfg):
    """Attention of x [batch, seq, dim] over everything in the cache and x itself.

    `start` counts the tokens that are already cached. The cache has a static
    size; slots at or after start + seq are hidden by the position test.
    """
    b, s, _ = x.shape
    q = (x @ params["wq"]).reshape(b, s, cfg.n_heads, cfg.head_dim)
    k = (x @ params["wk"]).reshape(b, s, cfg.n_kv_heads, cfg.head_dim)
    v = (x @ params["wv"]).reshape(b, s, cfg.n_kv_heads, cfg.head_dim)

    pos = start + jnp.arange(s)
    q, k = rope(q, pos, cfg.theta), rope(k, pos, cfg.theta)
    cache = KVCache(
        jax.lax.dynamic_update_slice(cache.k, k.astype(cache.k.dtype), (0, start, 0, 0)),
        jax.lax.dynamic_update_slice(cache.v, v.astype(cache.v.dtype), (0, start, 0, 0)),
    )

    rep = cfg.n_heads // cfg.n_kv_heads
    q = q.reshape(b, s, cfg.n_kv_heads, rep, cfg.head_dim)
    logits = jnp.einsum("bsgrd,btgd->bgrst", q, cache.k, preferred_element_type=jnp.float32)
    logits = logits * cfg.head_dim ** -0.5
    visible = jnp.arange(cfg.max_len)[None, :] <= pos[:, None]
    logits = jnp.where(visible[None, None, None], logits, jnp.finfo(jnp.float32).min)
    probs = jax.nn.softmax(logits, axis=-1).astype(x.dtype)
    out = jnp.einsum("bgrst,btgd->bsgrd", probs, cache.v).reshape(b, s, cfg.dim)
    return out @ params["wo"], cache


def swiglu(params, x):
    return (jax.nn.silu(x @ params["w1"]) * (x @ params["w3"])) @ params["w2"]


@partial(jax.jit, static_argnames="cfg")
def forward(params, tokens, caches, start, cfg):
    x = params["embed"][tokens]
    new = []
    for layer, cache in zip(params["layers"], caches):
        a, cache = cached_attention(layer["attn"], rms_norm(x, layer["norm1"]), cache, start, cfg)
        new.append(cache)
        x = x + a
        x = x + swiglu(layer["ffn"], rms_norm(x, layer["norm2"]))
    return rms_norm(x, params["norm"]) @ params["head"], new


def init(key, cfg):
    def dense(key, i, o):
        return jax.random.normal(key, (i, o)) / jnp.sqrt(i)

    layers = []
    for _ in range(cfg.n_layers):
        key, *ks = jax.random.split(key, 8)
        kv = cfg.n_kv_heads * cfg.head_dim
        layers.append({
            "attn": {"wq": dense(ks[0], cfg.dim, cfg.dim), "wk": dense(ks[1], cfg.dim, kv),
                     "wv": dense(ks[2], cfg.dim, kv), "wo": dense(ks[3], cfg.dim, cfg.dim)},
            "ffn": {"w1": dense(ks[4], cfg.dim, cfg.ffn), "w3": dense(ks[5], cfg.dim, cfg.ffn),
                    "w2": dense(ks[6], cfg.ffn, cfg.dim)},
            "norm1": jnp.ones(cfg.dim), "norm2": jnp.ones(cfg.dim),
        })
    k1, k2 = jax.random.split(key)
    return {"embed": dense(k1, cfg.vocab, cfg.dim), "head": dense(k2, cfg.dim, cfg.vocab),
            "norm": jnp.ones(cfg.dim), "layers": layers}
