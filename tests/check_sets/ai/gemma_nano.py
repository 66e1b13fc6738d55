"""Training code of the on-device assistant (Gemma-2 recipe, much smaller).

Differences to the big models: attn_softcap is 5 instead of 50, alternating local and
global layers use the same projection shapes.
"""
from dataclasses import dataclass
from typing import Any, Dict

import jax
import jax.numpy as jnp

Params = Dict[str, Any]


@dataclass(frozen=True)
class NanoConfig:
    d_model: int = 32
    n_heads: int = 4
    n_kv_heads: int = 1
    head_dim: int = 16
    d_ff: int = 64
    vocab: int = 128
    n_layers: int = 2
    window: int = 8
    query_pre_attn_scalar: float = 16.0
    attn_softcap: float = 5.0
    final_softcap: float = 30.0


def soft_cap(x, cap):
    return cap * jnp.tanh(x / cap)


def norm(x, scale):
    xf = x.astype(jnp.float32)
    xf = xf * jax.lax.rsqrt(jnp.mean(xf ** 2, -1, keepdims=True) + 1e-6)
    return (xf * (1.0 + scale)).astype(x.dtype)


def rope(x, pos):
    half = x.shape[-1] // 2
    ts = 10000.0 ** (jnp.arange(half) / half)
    ang = pos[..., None, None] / ts
    a, b = jnp.split(x, 2, -1)
    return jnp.concatenate([a * jnp.cos(ang) - b * jnp.sin(ang), b * jnp.cos(ang) + a * jnp.sin(ang)], -1)


def make_mask(valid, window=None):
    """valid (B, T) bool -> (B, T, T) bool, True where query t may use key s.

    A token always sees itself. `window` counts the visible tokens, itself included.
    """
    t = valid.shape[1]
    i, j = jnp.arange(t)[:, None], jnp.arange(t)[None, :]
    ok = j <= i
    if window is not None:
        ok = ok & (i - j < window)
    return (ok[None] & valid[:, None, :]) | jnp.eye(t, dtype=bool)[None]


def attention(p: Params, x, mask, cfg: NanoConfig):
    """x (B, T, d_model), mask (B, T, T): positions outside of the mask get no weight."""
    B, T, _ = x.shape
    pos = jnp.broadcast_to(jnp.arange(T), (B, T))
    q = rope(jnp.einsum("btm,mnh->btnh", x, p["q"]), pos)
    k = rope(jnp.einsum("btm,mkh->btkh", x, p["k"]), pos)
    v = jnp.einsum("btm,mkh->btkh", x, p["v"])
    q = q * cfg.query_pre_attn_scalar ** -0.5

    g = cfg.n_heads // cfg.n_kv_heads
    q = q.reshape(B, T, cfg.n_kv_heads, g, cfg.head_dim)
    logits = jnp.einsum("btkgh,bskh->bkgts", q, k).astype(jnp.float32)
    logits = jnp.where(mask[:, None, None], logits, -1e30)
    logits = soft_cap(logits, cfg.attn_softcap)
    probs = jax.nn.softmax(logits, -1).astype(x.dtype)
    enc = jnp.einsum("bkgts,bskh->btkgh", probs, v).reshape(B, T, cfg.n_heads, cfg.head_dim)
    return jnp.einsum("btnh,nhm->btm", enc, p["o"])


def mlp(p: Params, x):
    return (jax.nn.gelu(x @ p["gate"]) * (x @ p["up"])) @ p["down"]


def forward(params: Params, tokens, cfg: NanoConfig):
    valid = tokens != 0
    masks = (make_mask(valid, cfg.window), make_mask(valid))
    x = params["embed"][tokens] * jnp.sqrt(cfg.d_model).astype(jnp.float32)
    for i, lp in enumerate(params["layers"]):
        x = x + norm(attention(lp, norm(x, lp["n1"]), masks[i % 2], cfg), lp["n2"])
        x = x + norm(mlp(lp, norm(x, lp["n3"])), lp["n4"])
    return soft_cap(norm(x, params["norm"]) @ params["embed"].T, cfg.final_softcap)


def init_params(key, cfg: NanoConfig) -> Params:
    def w(key, *shape):
        return jax.random.normal(key, shape) * shape[0] ** -0.5

    layers = []
    for _ in range(cfg.n_layers):
        key, *k = jax.random.split(key, 8)
        layers.append(dict(
            q=w(k[0], cfg.d_model, cfg.n_heads, cfg.head_dim), k=w(k[1], cfg.d_model, cfg.n_kv_heads, cfg.head_dim),
            v=w(k[2], cfg.d_model, cfg.n_kv_heads, cfg.head_dim), o=w(k[3], cfg.n_heads, cfg.head_dim, cfg.d_model),
            gate=w(k[4], cfg.d_model, cfg.d_ff), up=w(k[5], cfg.d_model, cfg.d_ff), down=w(k[6], cfg.d_ff, cfg.d_model),
            **{n: jnp.zeros(cfg.d_model) for n in ("n1", "n2", "n3", "n4")}))
    return dict(embed=jax.random.normal(key, (cfg.vocab, cfg.d_model)) * 0.05, layers=layers, norm=jnp.zeros(cfg.d_model))


def loss_fn(params, tokens, cfg):
    logp = jax.nn.log_softmax(forward(params, tokens, cfg)[:, :-1], -1)
    tgt = tokens[:, 1:]
    ll = jnp.take_along_axis(logp, tgt[..., None], -1)[..., 0]
    m = tgt != 0
    return -(ll * m).sum() / jnp.maximum(m.sum(), 1)
