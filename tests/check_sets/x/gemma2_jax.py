import dataclasses

import jax
import jax.numpy as jnp

K_MASK = -2.3819763e38


@dataclasses.dataclass(frozen=True)
class GemmaConfig:
    embed_dim: int = 32
    num_heads: int = 4
    num_kv_heads: int = 2
    head_dim: int = 8
    hidden_dim: int = 64
    attn_logits_soft_cap: float = 5.0
    query_pre_attn_scalar: float = 8 ** -0.5


def init_block(key, cfg: GemmaConfig = GemmaConfig()):
    k = jax.random.split(key, 7)
    n = lambda kk, shape, fan: jax.random.normal(kk, shape) * fan ** -0.5
    D, H, KV, h, F = cfg.embed_dim, cfg.num_heads, cfg.num_kv_heads, cfg.head_dim, cfg.hidden_dim
    return {
        "pre_attn": jnp.zeros(D), "post_attn": jnp.zeros(D), "pre_ffw": jnp.zeros(D), "post_ffw": jnp.zeros(D),
        "attn": {"q": n(k[0], (H, D, h), D), "k": n(k[1], (KV, D, h), D), "v": n(k[2], (KV, D, h), D), "o": n(k[3], (H, h, D), H * h)},
        "mlp": {"gate": n(k[4], (D, F), D), "up": n(k[5], (D, F), D), "down": n(k[6], (F, D), F)},
    }


def rms_norm(scale, x):
    return x * jax.lax.rsqrt(jnp.mean(jnp.square(x), -1, keepdims=True) + 1e-6) * (1 + scale)


def apply_rope(x, positions, max_wavelength=10_000):
    half = x.shape[-1] // 2
    timescale = max_wavelength ** (2 * jnp.arange(half) / x.shape[-1])
    ang = (positions[..., None] / timescale)[:, :, None, :]
    a, b = jnp.split(x, 2, axis=-1)
    return jnp.concatenate([a * jnp.cos(ang) - b * jnp.sin(ang), b * jnp.cos(ang) + a * jnp.sin(ang)], axis=-1)


def attention(p, x, positions, attn_mask, cfg: GemmaConfig):
    q = apply_rope(jnp.einsum("BTD,NDH->BTNH", x, p["q"]), positions) * cfg.query_pre_attn_scalar
    k = apply_rope(jnp.einsum("BSD,KDH->BSKH", x, p["k"]), positions)
    v = jnp.einsum("BSD,KDH->BSKH", x, p["v"])
    b, t, _, h = q.shape
    q = q.reshape(b, t, cfg.num_kv_heads, -1, h)
    logits = jnp.einsum("BTKGH,BSKH->BKGTS", q, k)
    logits = jnp.where(attn_mask[:, None, None], logits, K_MASK)
    logits = jnp.tanh(logits / cfg.attn_logits_soft_cap) * cfg.attn_logits_soft_cap
    probs = jax.nn.softmax(logits, axis=-1)
    out = jnp.einsum("BKGTS,BSKH->BTKGH", probs, v).reshape(b, t, -1, h)
    return jnp.einsum("BTNH,NHD->BTD", out, p["o"])


def block(params, x, attn_mask=None, cfg: GemmaConfig = GemmaConfig()):
    """x: [B, T, embed_dim]; attn_mask: [B, T, T] bool, True = may attend (default: causal)"""
    B, T, _ = x.shape
    if attn_mask is None:
        attn_mask = jnp.broadcast_to(jnp.tril(jnp.ones((T, T), dtype=bool)), (B, T, T))
    positions = jnp.broadcast_to(jnp.arange(T), (B, T))
    y = attention(params["attn"], rms_norm(params["pre_attn"], x), positions, attn_mask, cfg)
    x = x + rms_norm(params["post_attn"], y)
    h = rms_norm(params["pre_ffw"], x)
    m = params["mlp"]
    h = (jax.nn.gelu(h @ m["gate"]) * (h @ m["up"])) @ m["down"]
    return x + rms_norm(params["post_ffw"], h)
