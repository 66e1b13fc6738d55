"""Mistral-7B decoder block in plain JAX. Weights live in nested dicts, names follow the HF checkpoint.

Grouped-query attention: there are n_heads query heads and n_kv_heads key/value heads; n_heads // n_kv_heads
consecutive query heads share one key/value head.
"""
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp


class MistralConfig(NamedTuple):
    dim: int = 64
    n_heads: int = 8
    n_kv_heads: int = 2
    head_dim: int = 8
    hidden_dim: int = 96
    norm_eps: float = 1e-5
    rope_theta: float = 10000.0


def init_block(key, cfg: MistralConfig = MistralConfig()):
    ks = jax.random.split(key, 7)
    dense = lambda k, i, o: jax.random.normal(k, (i, o)) * i ** -0.5
    return {
        "self_attn": {
            "q_proj": dense(ks[0], cfg.dim, cfg.n_heads * cfg.head_dim),
            "k_proj": dense(ks[1], cfg.dim, cfg.n_kv_heads * cfg.head_dim),
            "v_proj": dense(ks[2], cfg.dim, cfg.n_kv_heads * cfg.head_dim),
            "o_proj": dense(ks[3], cfg.n_heads * cfg.head_dim, cfg.dim),
        },
        "mlp": {
            "gate_proj": dense(ks[4], cfg.dim, cfg.hidden_dim),
            "up_proj": dense(ks[5], cfg.dim, cfg.hidden_dim),
            "down_proj": dense(ks[6], cfg.hidden_dim, cfg.dim),
        },
        "input_layernorm": jnp.ones(cfg.dim),
        "post_attention_layernorm": jnp.ones(cfg.dim),
    }


def rms_norm(x, w, eps):
    return x * jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + eps) * w


def rotary(x, theta):
    # x: [B, L, H, D], halves
    L, D = x.shape[1], x.shape[-1]
    inv = theta ** (-jnp.arange(0, D, 2) / D)
    ang = jnp.arange(L)[:, None] * inv[None]
    cos, sin = jnp.cos(ang)[None, :, None], jnp.sin(ang)[None, :, None]
    a, b = jnp.split(x, 2, axis=-1)
    return jnp.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)


def self_attention(params, x, cfg):
    B, L, _ = x.shape
    q = (x @ params["q_proj"]).reshape(B, L, cfg.n_heads, cfg.head_dim)
    k = (x @ params["k_proj"]).reshape(B, L, cfg.n_kv_heads, cfg.head_dim)
    v = (x @ params["v_proj"]).reshape(B, L, cfg.n_kv_heads, cfg.head_dim)
    q, k = rotary(q, cfg.rope_theta), rotary(k, cfg.rope_theta)

    groups = cfg.n_heads // cfg.n_kv_heads
    k = jnp.tile(k, (1, 1, groups, 1))
    v = jnp.tile(v, (1, 1, groups, 1))

    logits = jnp.einsum("blhd,bmhd->bhlm", q, k) / jnp.sqrt(cfg.head_dim)
    causal = jnp.tril(jnp.ones((L, L), dtype=bool))
    logits = jnp.where(causal, logits, jnp.finfo(logits.dtype).min)
    probs = jax.nn.softmax(logits.astype(jnp.float32), axis=-1).astype(x.dtype)
    out = jnp.einsum("bhlm,bmhd->blhd", probs, v).reshape(B, L, -1)
    return out @ params["o_proj"]


@partial(jax.jit, static_argnums=2)
def mistral_block(params, x, cfg: MistralConfig = MistralConfig()):
    """params from init_block, x [batch, length, dim]"""
    h = x + self_attention(params["self_attn"], rms_norm(x, params["input_layernorm"], cfg.norm_eps), cfg)
    z = rms_norm(h, params["post_attention_layernorm"], cfg.norm_eps)
    m = params["mlp"]
    return h + (jax.nn.silu(z @ m["gate_proj"]) * (z @ m["up_proj"])) @ m["down_proj"]
