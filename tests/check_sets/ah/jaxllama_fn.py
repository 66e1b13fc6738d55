"""LLaMA-style decoder as pure functions over a params pytree. HF rotary layout (two halves).

cache = {"k": [layers, B, Lmax, n_kv, d], "v": same, "pos": int32}
query heads h*G ... h*G+G-1 share kv head h (G = n_heads // n_kv).
"""
import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax


class Cfg(NamedTuple):
    dim: int = 32
    n_heads: int = 4
    n_kv: int = 2
    layers: int = 2
    vocab: int = 64
    hidden: int = 64
    theta: float = 10000.0

    @property
    def hd(self):
        return self.dim // self.n_heads


def rms(x, w, eps=1e-5):
    return x * lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + eps) * w


def rope(x, pos, theta):
    # x [B, T, n, d], pos [T]
    half = x.shape[-1] // 2
    inv = theta ** (-jnp.arange(half) / half)
    ang = pos[:, None] * inv[None, :]
    c, s = jnp.cos(ang)[None, :, None, :], jnp.sin(ang)[None, :, None, :]
    a, b = x[..., :half], x[..., half:]
    return jnp.concatenate([a * c - b * s, b * c + a * s], axis=-1)


def attention(p, x, kc, vc, start, cfg):
    B, T, _ = x.shape
    pos = start + jnp.arange(T)
    q = rope((x @ p["wq"]).reshape(B, T, cfg.n_heads, cfg.hd), pos, cfg.theta)
    k = rope((x @ p["wk"]).reshape(B, T, cfg.n_kv, cfg.hd), pos, cfg.theta)
    v = (x @ p["wv"]).reshape(B, T, cfg.n_kv, cfg.hd)
    kc = lax.dynamic_update_slice_in_dim(kc, k.astype(kc.dtype), start, axis=1)
    vc = lax.dynamic_update_slice_in_dim(vc, v.astype(vc.dtype), start, axis=1)
    q = q.reshape(B, T, cfg.n_kv, cfg.n_heads // cfg.n_kv, cfg.hd)
    s = jnp.einsum("btkgd,bskd->bkgts", q, kc) * cfg.hd ** -0.5
    ok = jnp.arange(kc.shape[1])[None, :] <= pos[:, None]
    s = jnp.where(ok, s.astype(jnp.float32), -jnp.inf)
    a = jax.nn.softmax(s, axis=-1).astype(x.dtype)
    o = jnp.einsum("bkgts,bskd->btkgd", a, vc).reshape(B, T, -1)
    return o @ p["wo"], kc, vc


def mlp(p, x):
    return (jax.nn.silu(x @ p["w1"]) * (x @ p["w3"])) @ p["w2"]


def forward(params, ids, cache, cfg):
    x = params["emb"][ids]
    ks, vs = [], []
    for i, blk in enumerate(params["blocks"]):
        o, k, v = attention(blk, rms(x, blk["n1"]), cache["k"][i], cache["v"][i], cache["pos"], cfg)
        x = x + o
        x = x + mlp(blk, rms(x, blk["n2"]))
        ks.append(k)
        vs.append(v)
    new = {"k": jnp.stack(ks), "v": jnp.stack(vs), "pos": cache["pos"] + ids.shape[1]}
    return rms(x, params["norm"]) @ params["emb"].T, new


def empty_cache(cfg, batch, max_len, dtype=jnp.float32):
    shape = (cfg.layers, batch, max_len, cfg.n_kv, cfg.hd)
    return {"k": jnp.zeros(shape, dtype), "v": jnp.zeros(shape, dtype), "pos": jnp.int32(0)}


def init(key, cfg):
    def w(k, i, o):
        return jax.random.normal(k, (i, o)) * i ** -0.5

    keys = iter(jax.random.split(key, 8 * cfg.layers + 1))
    blocks = []
    for _ in range(cfg.layers):
        blocks.append(dict(
            wq=w(next(keys), cfg.dim, cfg.dim), wk=w(next(keys), cfg.dim, cfg.n_kv * cfg.hd),
            wv=w(next(keys), cfg.dim, cfg.n_kv * cfg.hd), wo=w(next(keys), cfg.dim, cfg.dim),
            w1=w(next(keys), cfg.dim, cfg.hidden), w3=w(next(keys), cfg.dim, cfg.hidden),
            w2=w(next(keys), cfg.hidden, cfg.dim), n1=jnp.ones(cfg.dim), n2=jnp.ones(cfg.dim)))
    return {"emb": jax.random.normal(next(keys), (cfg.vocab, cfg.dim)), "blocks": blocks, "norm": jnp.ones(cfg.dim)}


def greedy(params, prompt, n, cfg):
    cache = empty_cache(cfg, prompt.shape[0], prompt.shape[1] + n)
    step = jax.jit(functools.partial(forward, cfg=cfg))
    logits, cache = step(params, prompt, cache)
    out = []
    for _ in range(n):
        tok = logits[:, -1].argmax(-1)[:, None]
        out.append(tok)
        logits, cache = step(params, tok, cache)
    return jnp.concatenate(out, 1)
