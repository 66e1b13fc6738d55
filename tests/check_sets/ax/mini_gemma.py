"""A small Gemma-2 like decoder in plain JAX; params are nested dicts as in the checkpoint.

Differences to Llama that matter here:
  * soft capping of the attention logits: cap * tanh(logits / cap); our byte models use a
    tight cap (cfg.attn_cap)
  * the query scale is cfg.query_pre_attn_scalar ** -0.5
  * embeddings are multiplied by sqrt(width)
"""
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp


class GemmaConfig(NamedTuple):
    vocab: int = 259
    width: int = 64
    heads: int = 4
    kv_heads: int = 2
    head_dim: int = 16
    mlp: int = 128
    layers: int = 2
    attn_cap: float = 6.0
    final_cap: float = 30.0
    query_pre_attn_scalar: float = 16.0


def rms(x, scale):
    var = jnp.mean(jnp.square(x.astype(jnp.float32)), -1, keepdims=True)
    return (x * jax.lax.rsqrt(var + 1e-6) * (1 + scale)).astype(x.dtype)


def soft_cap(x, cap):
    return cap * jnp.tanh(x / cap)


def rope(x, pos):
    """x [B, T, N, D], pos [B, T]"""
    half = x.shape[-1] // 2
    freq = 10000.0 ** (-jnp.arange(half) / half)
    ang = pos[..., None, None] * freq
    a, b = jnp.split(x, 2, axis=-1)
    return jnp.concatenate([a * jnp.cos(ang) - b * jnp.sin(ang), b * jnp.cos(ang) + a * jnp.sin(ang)], -1).astype(x.dtype)


def attention(p: dict, x, pos, mask, cfg: GemmaConfig):
    """mask [B, T, T] bool, True = query (second axis) may see key (third axis)"""
    q = rope(jnp.einsum("btw,nwh->btnh", x, p["q_einsum"]["w"]), pos)
    k, v = jnp.einsum("btw,ckwh->cbtkh", x, p["kv_einsum"]["w"])
    k = rope(k, pos)
    b, t, n, h = q.shape
    q = q.reshape(b, t, cfg.kv_heads, n // cfg.kv_heads, h) * cfg.query_pre_attn_scalar ** -0.5

    logits = jnp.einsum("btkgh,bskh->bkgts", q, k).astype(jnp.float32)
    logits = jnp.where(mask[:, None, None], logits, jnp.finfo(jnp.float32).min)
    logits = soft_cap(logits, cfg.attn_cap)
    probs = jax.nn.softmax(logits, axis=-1).astype(v.dtype)
    out = jnp.einsum("bkgts,bskh->btkgh", probs, v).reshape(b, t, n, h)
    return jnp.einsum("btnh,nhw->btw", out, p["attn_vec_einsum"]["w"])


def mlp(p, x):
    gate, up = x @ p["gating"][0], x @ p["gating"][1]
    return (jax.nn.gelu(gate) * up) @ p["linear"]


def causal_mask(tokens, pad_id=0):
    """True where key <= query and the key is no padding (right padding)"""
    t = tokens.shape[1]
    return jnp.tril(jnp.ones((t, t), bool))[None] & (tokens != pad_id)[:, None, :]


def transformer(params: dict, tokens, cfg: GemmaConfig, pad_id=0):
    mask = causal_mask(tokens, pad_id)
    pos = jnp.broadcast_to(jnp.arange(tokens.shape[1]), tokens.shape)
    x = params["embedder"]["input_embedding"][tokens] * jnp.sqrt(cfg.width)
    for i in range(cfg.layers):
        p = params[f"layer_{i}"]
        y = attention(p["attn"], rms(x, p["pre_attention_norm"]), pos, mask, cfg)
        x = x + rms(y, p["post_attention_norm"])
        y = mlp(p["mlp"], rms(x, p["pre_ffw_norm"]))
        x = x + rms(y, p["post_ffw_norm"])
    x = rms(x, params["final_norm"])
    return soft_cap(x @ params["embedder"]["input_embedding"].T, cfg.final_cap)


def init(rng, cfg: GemmaConfig) -> dict:
    keys = iter(jax.random.split(rng, 1 + 6 * cfg.layers))
    w = lambda *s, fan: jax.random.normal(next(keys), s) * fan ** -0.5
    params: dict[str, Any] = {"embedder": {"input_embedding": w(cfg.vocab, cfg.width, fan=cfg.width)},
                              "final_norm": jnp.zeros(cfg.width)}
    for i in range(cfg.layers):
        z = lambda: jnp.zeros(cfg.width)
        params[f"layer_{i}"] = {
            "attn": {"q_einsum": {"w": w(cfg.heads, cfg.width, cfg.head_dim, fan=cfg.width)},
                     "kv_einsum": {"w": w(2, cfg.kv_heads, cfg.width, cfg.head_dim, fan=cfg.width)},
                     "attn_vec_einsum": {"w": w(cfg.heads, cfg.head_dim, cfg.width, fan=cfg.width)}},
            "mlp": {"gating": w(2, cfg.width, cfg.mlp, fan=cfg.width), "linear": w(cfg.mlp, cfg.width, fan=cfg.mlp)},
            "pre_attention_norm": z(), "post_attention_norm": z(), "pre_ffw_norm": z(), "post_ffw_norm": z()}
    return params


def nll(params, tokens, cfg):
    logp = jax.nn.log_softmax(transformer(params, tokens[:, :-1], cfg))
    tgt = tokens[:, 1:]
    picked = jnp.take_along_axis(logp, tgt[..., None], -1)[..., 0]
    return -(picked * (tgt != 0)).sum() / jnp.maximum((tgt != 0).sum(), 1)
