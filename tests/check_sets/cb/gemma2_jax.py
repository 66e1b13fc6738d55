"""Gemma-2 style decoder layer in functional JAX (toy sizes, for a TPU Research Cloud grant).

What makes it Gemma-2: grouped kv heads, soft-capping of the attention logits
(cap * tanh(logits / cap), `attn_softcap`), norms before and after each sub-layer with
(1 + w) gains, GeGLU. Decoder-only: a token sees itself and the tokens before it,
and never a padded one.
"""
from typing import NamedTuple

import jax
import jax.numpy as jnp


class GemmaConfig(NamedTuple):
    dim: int = 32
    n_heads: int = 4
    n_kv: int = 2
    head_dim: int = 8
    hidden: int = 64
    query_scalar: float = 8.0       # logits are divided by sqrt of this
    attn_softcap: float = 50.0
    theta: float = 10000.0


def rms_norm(x, w, eps=1e-6):
    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + eps) * (1 + w)


def rope(x, pos, theta):
    # x (B, T, H, D), pos (B, T); first half pairs with second half
    d = x.shape[-1]
    freq = theta ** (-jnp.arange(0, d, 2) / d)
    ang = pos[..., None, None] * freq
    c, s = jnp.cos(ang), jnp.sin(ang)
    a, b = jnp.split(x, 2, axis=-1)
    return jnp.concatenate([a * c - b * s, b * c + a * s], -1)


def attention(q, k, v, valid, scale, softcap):
    """q (B, T, G, R, D), k/v (B, S, G, D), valid (B, S) -> (B, T, G, R, D)"""
    logits = jnp.einsum("btgrd,bsgd->bgrts", q, k) * scale
    logits = jnp.where(valid[:, None, None, None, :], logits, -2.3819763e38)
    probs = jax.nn.softmax(logits.astype(jnp.float32), axis=-1).astype(q.dtype)
    return jnp.einsum("bgrts,bsgd->btgrd", probs, v)


def decoder_layer(p, x, valid, cfg: GemmaConfig):
    """x (B, T, dim), valid (B, T) bool (right padded) -> (B, T, dim)"""
    B, T, _ = x.shape
    pos = jnp.broadcast_to(jnp.arange(T), (B, T))
    h = rms_norm(x, p["pre_attn"])
    q = (h @ p["wq"]).reshape(B, T, cfg.n_heads, cfg.head_dim)
    k = (h @ p["wk"]).reshape(B, T, cfg.n_kv, cfg.head_dim)
    v = (h @ p["wv"]).reshape(B, T, cfg.n_kv, cfg.head_dim)
    q, k = rope(q, pos, cfg.theta), rope(k, pos, cfg.theta)
    q = q.reshape(B, T, cfg.n_kv, cfg.n_heads // cfg.n_kv, cfg.head_dim)
    y = attention(q, k, v, valid, cfg.query_scalar ** -0.5, cfg.attn_softcap)
    y = y.reshape(B, T, -1) @ p["wo"]
    x = x + rms_norm(y, p["post_attn"])
    h = rms_norm(x, p["pre_ffn"])
    y = (jax.nn.gelu(h @ p["gate"]) * (h @ p["up"])) @ p["down"]
    return x + rms_norm(y, p["post_ffn"])


def init_layer(key, cfg: GemmaConfig):
    ks = iter(jax.random.split(key, 8))
    mat = lambda i, o: jax.random.normal(next(ks), (i, o)) * i ** -0.5
    p = {n: jnp.zeros(cfg.dim) for n in ("pre_attn", "post_attn", "pre_ffn", "post_ffn")}
    p.update(wq=mat(cfg.dim, cfg.n_heads * cfg.head_dim), wk=mat(cfg.dim, cfg.n_kv * cfg.head_dim),
             wv=mat(cfg.dim, cfg.n_kv * cfg.head_dim), wo=mat(cfg.n_heads * cfg.head_dim, cfg.dim),
             gate=mat(cfg.dim, cfg.hidden), up=mat(cfg.dim, cfg.hidden), down=mat(cfg.hidden, cfg.dim))
    return p


if __name__ == "__main__":
    cfg = GemmaConfig()
    params = init_layer(jax.random.PRNGKey(0), cfg)
    x = jax.random.normal(jax.random.PRNGKey(1), (2, 6, cfg.dim))
    valid = jnp.arange(6)[None] < jnp.array([[6], [4]])
    print(jax.jit(decoder_layer, static_argnums=3)(params, x, valid, cfg).shape)
