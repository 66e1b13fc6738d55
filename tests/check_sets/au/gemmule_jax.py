"""Gemma-2 shaped toy decoder in JAX (params are nested dicts, layout of the Flax checkpoint).

The attention cap is far below Gemma's 50, since the toy is trained with a high learning rate.
"""
from typing import NamedTuple

import jax
import jax.numpy as jnp


class Cfg(NamedTuple):
    n_heads: int = 4
    n_kv: int = 2
    head_dim: int = 16
    softcap: float = 5.0
    final_cap: float = 30.0


def rms(x, w):
    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * (1 + w)


def rope(x, pos):
    """x [B, L, N, h], pos [B, L]; halves are paired."""
    h = x.shape[-1]
    ts = 10_000.0 ** (2 * jnp.arange(h // 2) / h)
    r = pos[..., None, None] / ts
    a, b = jnp.split(x, 2, -1)
    return jnp.concatenate([a * jnp.cos(r) - b * jnp.sin(r), b * jnp.cos(r) + a * jnp.sin(r)], -1)


def additive_mask(tokens_valid):
    """[B, L] bool -> [B, 1, 1, L, L] of 0 and -1e30; causal, and padding is never looked at."""
    L = tokens_valid.shape[1]
    ok = jnp.tril(jnp.ones((L, L), bool))[None] & tokens_valid[:, None, :]
    ok = ok | jnp.eye(L, dtype=bool)[None]
    return jnp.where(ok, 0.0, -1e30)[:, None, None]


def gemma_attention(p, x, pos, mask, cfg):
    """Grouped-query attention with logit soft-capping: cap * tanh(logits / cap).

    p: q_einsum [N, D, h], k_einsum / v_einsum [K, D, h], o_einsum [N, h, D].
    """
    B, L, D = x.shape
    q = jnp.einsum("bld,ndh->blnh", x, p["q_einsum"])
    k = jnp.einsum("bld,kdh->blkh", x, p["k_einsum"])
    v = jnp.einsum("bld,kdh->blkh", x, p["v_einsum"])
    q = rope(q, pos) * cfg.head_dim ** -0.5
    k = rope(k, pos)
    q = q.reshape(B, L, cfg.n_kv, cfg.n_heads // cfg.n_kv, cfg.head_dim)
    logits = jnp.einsum("blkgh,bmkh->bkglm", q, k)
    logits = logits + mask
    logits = jnp.tanh(logits / cfg.softcap) * cfg.softcap
    w = jax.nn.softmax(logits.astype(jnp.float32), axis=-1).astype(x.dtype)
    y = jnp.einsum("bkglm,bmkh->blkgh", w, v).reshape(B, L, cfg.n_heads, cfg.head_dim)
    return jnp.einsum("blnh,nhd->bld", y, p["o_einsum"])


def ffw(p, x):
    return (jax.nn.gelu(x @ p["gate"]) * (x @ p["up"])) @ p["down"]


def layer(p, x, pos, mask, cfg):
    y = gemma_attention(p["attn"], rms(x, p["pre_attn"]), pos, mask, cfg)
    x = x + rms(y, p["post_attn"])
    y = ffw(p["mlp"], rms(x, p["pre_ffw"]))
    return x + rms(y, p["post_ffw"])


def forward(params, tokens, valid, cfg=Cfg()):
    emb = params["embedder"]
    x = emb[tokens] * emb.shape[1] ** 0.5
    pos = jnp.maximum(jnp.cumsum(valid, 1) - 1, 0)
    m = additive_mask(valid)
    for p in params["layers"]:
        x = layer(p, x, pos, m, cfg)
    logits = rms(x, params["final_norm"]) @ emb.T
    return cfg.final_cap * jnp.tanh(logits / cfg.final_cap)
