"""gemma-ish language model in functional jax, for the TPU study group."""
import dataclasses

import jax
import jax.numpy as jnp


@dataclasses.dataclass(frozen=True)
class Cfg:
    width: int = 32
    heads: int = 4
    kv_heads: int = 2
    head_dim: int = 8
    attn_softcap: float = 5.0       # logits live in (-cap, cap)
    window: int = 0                 # 0: global layer; else keys visible, own one included


def squash(x, cap):
    return cap * jnp.tanh(x / cap)


def visibility(n, window, pad_mask):
    """bool [B, 1, n, n]; pad_mask [B, n] True for words"""
    i, j = jnp.arange(n)[:, None], jnp.arange(n)[None, :]
    ok = j <= i
    if window:
        ok &= i - j < window
    return ok[None, None] & pad_mask[:, None, None, :]


def init(key, cfg):
    ks = jax.random.split(key, 4)
    s = cfg.width ** -0.5
    return {
        "q": jax.random.normal(ks[0], (cfg.width, cfg.heads, cfg.head_dim)) * s,
        "k": jax.random.normal(ks[1], (cfg.width, cfg.kv_heads, cfg.head_dim)) * s,
        "v": jax.random.normal(ks[2], (cfg.width, cfg.kv_heads, cfg.head_dim)) * s,
        "o": jax.random.normal(ks[3], (cfg.heads, cfg.head_dim, cfg.width)) * s,
    }


def attend(p, x, pad_mask, cfg):
    """Masked positions get no weight at all."""
    q = jnp.einsum("bnc,chd->bnhd", x, p["q"]) * cfg.head_dim ** -0.5
    k = jnp.einsum("bnc,chd->bnhd", x, p["k"])
    v = jnp.einsum("bnc,chd->bnhd", x, p["v"])
    g = cfg.heads // cfg.kv_heads
    k, v = jnp.repeat(k, g, axis=2), jnp.repeat(v, g, axis=2)
    s = jnp.einsum("bnhd,bmhd->bhnm", q, k)
    see = visibility(x.shape[1], cfg.window, pad_mask)
    s = jnp.where(see, s, -1e30)
    s = squash(s, cfg.attn_softcap)
    w = jax.nn.softmax(s.astype(jnp.float32), axis=-1)
    y = jnp.einsum("bhnm,bmhd->bnhd", w.astype(x.dtype), v)
    return jnp.einsum("bnhd,hdc->bnc", y, p["o"])


def rms(x, eps=1e-6):
    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + eps)


def block(p, x, pad_mask, cfg):
    x = x + rms(attend(p["att"], rms(x), pad_mask, cfg))
    h = rms(x)
    h = jax.nn.gelu(h @ p["gate"]) * (h @ p["up"])
    return x + rms(h @ p["down"])
