"""Mistral-family decoder in JAX over a flat parameter dict (names as in the safetensors file).

Grouped-query attention: query heads come in groups of n_heads // n_kv_heads neighbours, and all
heads of a group read the same key/value head. Linear weights are stored [out, in].
"""
from dataclasses import dataclass

import jax
import jax.numpy as jnp


@dataclass(frozen=True)
class Hyper:
    dim: int = 64
    n_layers: int = 2
    n_heads: int = 8
    n_kv_heads: int = 2
    hidden: int = 128
    vocab: int = 200
    theta: float = 1e6
    eps: float = 1e-5

    @property
    def head_dim(self):
        return self.dim // self.n_heads


def rms_norm(x, w, eps):
    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + eps) * w


def rope(x, pos, theta):
    """x [B, L, H, d], pos [L]; pairs are (i, i + d/2)."""
    d = x.shape[-1]
    inv = theta ** (-jnp.arange(0, d, 2) / d)
    ang = pos[:, None] * inv[None, :]
    cos, sin = jnp.cos(ang)[None, :, None, :], jnp.sin(ang)[None, :, None, :]
    a, b = x[..., : d // 2], x[..., d // 2:]
    return jnp.concatenate([a * cos - b * sin, b * cos + a * sin], -1)


def attention(params, prefix, x, hyper, pos, cache=None):
    B, L, _ = x.shape
    hd, nh, nkv = hyper.head_dim, hyper.n_heads, hyper.n_kv_heads
    lin = lambda name, t: t @ params[f"{prefix}.{name}.weight"].T

    q = rope(lin("q_proj", x).reshape(B, L, nh, hd), pos, hyper.theta)
    k = rope(lin("k_proj", x).reshape(B, L, nkv, hd), pos, hyper.theta)
    v = lin("v_proj", x).reshape(B, L, nkv, hd)
    if cache is not None:
        k = jnp.concatenate([cache[0], k], axis=1)
        v = jnp.concatenate([cache[1], v], axis=1)
    new_cache = (k, v)

    rep = nh // nkv
    k = jnp.tile(k, (1, 1, rep, 1))
    v = jnp.tile(v, (1, 1, rep, 1))
    s = jnp.einsum("bqhd,bkhd->bhqk", q, k) / jnp.sqrt(hd)
    see = jnp.arange(k.shape[1])[None, :] <= pos[:, None]
    s = jnp.where(see[None, None], s, -jnp.inf)
    p = jax.nn.softmax(s.astype(jnp.float32), axis=-1).astype(x.dtype)
    o = jnp.einsum("bhqk,bkhd->bqhd", p, v).reshape(B, L, nh * hd)
    return lin("o_proj", o), new_cache


def mlp(params, prefix, x):
    w = lambda n: params[f"{prefix}.{n}.weight"].T
    return (jax.nn.silu(x @ w("gate_proj")) * (x @ w("up_proj"))) @ w("down_proj")


def forward(params, ids, hyper, caches=None):
    start = 0 if caches is None else caches[0][0].shape[1]
    pos = start + jnp.arange(ids.shape[1])
    x = params["model.embed_tokens.weight"][ids]
    new = []
    for i in range(hyper.n_layers):
        n = f"model.layers.{i}"
        h = rms_norm(x, params[f"{n}.input_layernorm.weight"], hyper.eps)
        h, c = attention(params, f"{n}.self_attn", h, hyper, pos,
                         None if caches is None else caches[i])
        new.append(c)
        x = x + h
        h = rms_norm(x, params[f"{n}.post_attention_layernorm.weight"], hyper.eps)
        x = x + mlp(params, f"{n}.mlp", h)
    x = rms_norm(x, params["model.norm.weight"], hyper.eps)
    return x @ params["lm_head.weight"].T, new


def dummy_params(key, hp: Hyper):
    kv = hp.n_kv_heads * hp.head_dim
    shapes = {"self_attn.q_proj": (hp.dim, hp.dim), "self_attn.k_proj": (kv, hp.dim),
              "self_attn.v_proj": (kv, hp.dim), "self_attn.o_proj": (hp.dim, hp.dim),
              "mlp.gate_proj": (hp.hidden, hp.dim), "mlp.up_proj": (hp.hidden, hp.dim),
              "mlp.down_proj": (hp.dim, hp.hidden)}
    p = {}
    for i in range(hp.n_layers):
        for n, s in shapes.items():
            key, k = jax.random.split(key)
            p[f"model.layers.{i}.{n}.weight"] = jax.random.normal(k, s) * hp.dim ** -0.5
        for n in ("input_layernorm", "post_attention_layernorm"):
            p[f"model.layers.{i}.{n}.weight"] = jnp.ones(hp.dim)
    k1, k2 = jax.random.split(key)
    p["model.embed_tokens.weight"] = jax.random.normal(k1, (hp.vocab, hp.dim))
    p["lm_head.weight"] = jax.random.normal(k2, (hp.vocab, hp.dim))
    p["model.norm.weight"] = jnp.ones(hp.dim)
    return p
