"""Garnet: JAX port of a small open model with capped logits.

Logits l are capped as cap * tanh(l / cap), before the mask is laid over them.
``token_mask`` is bool [B, T], True for real tokens.  Parameters are a flat dict of arrays.
"""
import dataclasses

import jax
import jax.numpy as jnp


@dataclasses.dataclass(frozen=True)
class GarnetConfig:
    embed_dim: int = 64
    num_heads: int = 4
    num_kv_heads: int = 2
    head_dim: int = 16
    hidden_dim: int = 128
    attn_logits_cap: float = 5.0
    query_pre_attn_scalar: float = 16.0


def make_params(key, cfg, dtype=jnp.float32):
    shapes = {
        "attn/q": (cfg.num_heads, cfg.embed_dim, cfg.head_dim),
        "attn/kv": (2, cfg.num_kv_heads, cfg.embed_dim, cfg.head_dim),
        "attn/out": (cfg.num_heads, cfg.head_dim, cfg.embed_dim),
        "mlp/gate": (2, cfg.embed_dim, cfg.hidden_dim),
        "mlp/down": (cfg.hidden_dim, cfg.embed_dim),
    }
    keys = jax.random.split(key, len(shapes))
    p = {n: jax.random.normal(k, s, dtype) * s[-2] ** -0.5 for k, (n, s) in zip(keys, shapes.items())}
    for n in ("pre_attn", "post_attn", "pre_mlp", "post_mlp"):
        p["norm/" + n] = jnp.zeros(cfg.embed_dim, dtype)
    return p


def rms_norm(x, scale):
    var = jnp.mean(jnp.square(x.astype(jnp.float32)), -1, keepdims=True)
    return ((x * jax.lax.rsqrt(var + 1e-6)) * (1.0 + scale)).astype(x.dtype)


def apply_rope(x, positions, max_wavelength=10_000):
    d = x.shape[-1]
    ts = max_wavelength ** (jnp.arange(0, d // 2) * 2.0 / d)
    ang = positions[..., None, None] / ts
    a, b = jnp.split(x, 2, -1)
    sin, cos = jnp.sin(ang), jnp.cos(ang)
    return jnp.concatenate([a * cos - b * sin, b * cos + a * sin], -1).astype(x.dtype)


def attention(params, cfg: GarnetConfig, x, positions, token_mask):
    """Causal grouped-query attention. x [B, T, D], positions [B, T]."""
    B, T, _ = x.shape
    q = jnp.einsum("btd,ndh->btnh", x, params["attn/q"])
    k, v = jnp.einsum("bsd,ckdh->cbskh", x, params["attn/kv"])
    q = apply_rope(q, positions) * cfg.query_pre_attn_scalar ** -0.5
    k = apply_rope(k, positions)
    q = q.reshape(B, T, cfg.num_kv_heads, -1, cfg.head_dim)
    logits = jnp.einsum("btkgh,bskh->bkgts", q, k).astype(jnp.float32)
    mask = jnp.tril(jnp.ones((T, T), bool))[None] & token_mask[:, None, :]
    logits = jnp.where(mask[:, None, None], logits, -2.3819763e38)
    if cfg.attn_logits_cap:
        logits = cfg.attn_logits_cap * jnp.tanh(logits / cfg.attn_logits_cap)
    probs = jax.nn.softmax(logits, axis=-1).astype(x.dtype)
    y = jnp.einsum("bkgts,bskh->btkgh", probs, v)
    y = y.reshape(B, T, cfg.num_heads, cfg.head_dim)
    return jnp.einsum("btnh,nhd->btd", y, params["attn/out"])


def mlp(params, x):
    g, u = jnp.einsum("btd,cdf->cbtf", x, params["mlp/gate"])
    return (jax.nn.gelu(g) * u) @ params["mlp/down"]


def block(params, cfg, x, positions, token_mask):
    h = attention(params, cfg, rms_norm(x, params["norm/pre_attn"]), positions, token_mask)
    x = x + rms_norm(h, params["norm/post_attn"])
    h = mlp(params, rms_norm(x, params["norm/pre_mlp"]))
    return x + rms_norm(h, params["norm/post_mlp"])


def positions_from_mask(token_mask):
    p = jnp.cumsum(token_mask, -1)
    return p - (p >= 1)
