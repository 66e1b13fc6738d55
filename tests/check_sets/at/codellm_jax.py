"""Run a code completion model (llama-like, grouped-query attention) in JAX.

Weights as in the Hugging Face checkpoint, transposed to [in, out].
Query heads 0..G-1 belong to kv head 0, the next G to kv head 1, and so on.
"""
from functools import partial
from typing import NamedTuple
import jax
import jax.numpy as jnp


class Config(NamedTuple):
    dim: int = 64
    n_layers: int = 2
    n_heads: int = 8
    n_kv_heads: int = 2
    head_dim: int = 8
    theta: float = 10000.0
    eps: float = 1e-6


def rms_norm(x, w, eps):
    x32 = x.astype(jnp.float32)
    y = x32 * jax.lax.rsqrt(jnp.mean(x32 ** 2, -1, keepdims=True) + eps)
    return (y * w).astype(x.dtype)


def rope(x, positions, theta):
    """x [T, H, D], halves rotated against each other."""
    d = x.shape[-1]
    inv = theta ** (-jnp.arange(0, d, 2) / d)
    ang = positions[:, None, None] * inv
    cos, sin = jnp.cos(ang), jnp.sin(ang)
    a, b = jnp.split(x, 2, axis=-1)
    return jnp.concatenate([a * cos - b * sin, b * cos + a * sin], -1).astype(x.dtype)


def attention(p, x, cache, pos, cfg):
    """x [T, dim] at positions pos..pos+T-1; cache (k, v) each [S, Hkv, D]."""
    T = x.shape[0]
    positions = pos + jnp.arange(T)
    q = (x @ p["q_proj"]).reshape(T, cfg.n_heads, cfg.head_dim)
    k = (x @ p["k_proj"]).reshape(T, cfg.n_kv_heads, cfg.head_dim)
    v = (x @ p["v_proj"]).reshape(T, cfg.n_kv_heads, cfg.head_dim)
    q, k = rope(q, positions, cfg.theta), rope(k, positions, cfg.theta)
    ck = jax.lax.dynamic_update_slice(cache[0], k, (pos, 0, 0))
    cv = jax.lax.dynamic_update_slice(cache[1], v, (pos, 0, 0))

    g = cfg.n_heads // cfg.n_kv_heads
    kk = jnp.tile(ck, (1, g, 1))
    vv = jnp.tile(cv, (1, g, 1))
    s = jnp.einsum("thd,shd->hts", q, kk).astype(jnp.float32) * cfg.head_dim ** -0.5
    visible = jnp.arange(ck.shape[0])[None, :] <= positions[:, None]
    s = jnp.where(visible[None], s, -jnp.inf)
    w = jax.nn.softmax(s, axis=-1).astype(x.dtype)
    o = jnp.einsum("hts,shd->thd", w, vv).reshape(T, -1)
    return o @ p["o_proj"], (ck, cv)


def mlp(p, x):
    return (jax.nn.silu(x @ p["gate_proj"]) * (x @ p["up_proj"])) @ p["down_proj"]


@partial(jax.jit, static_argnames=("cfg",))
def forward(params, tokens, caches, pos, cfg):
    x = params["embed"][tokens]
    new = []
    for p, c in zip(params["layers"], caches):
        h, c = attention(p["attn"], rms_norm(x, p["ln_in"], cfg.eps), c, pos, cfg)
        x = x + h
        x = x + mlp(p["mlp"], rms_norm(x, p["ln_post"], cfg.eps))
        new.append(c)
    return rms_norm(x, params["norm"], cfg.eps) @ params["embed"].T, new


def empty_caches(cfg, max_len, dtype=jnp.float32):
    z = jnp.zeros((max_len, cfg.n_kv_heads, cfg.head_dim), dtype)
    return [(z, z) for _ in range(cfg.n_layers)]


def complete(params, prompt, cfg, n=32, stop=None):
    caches = empty_caches(cfg, len(prompt) + n)
    logits, caches = forward(params, jnp.array(prompt), caches, 0, cfg)
    out = []
    for i in range(n):
        out.append(int(logits[-1].argmax()))
        if out[-1] == stop:
            break
        logits, caches = forward(params, jnp.array(out[-1:]), caches, len(prompt) + i, cfg)
    return out
