"""Attention block of the local/global decoder (Flax linen)."""
import dataclasses

import flax.linen as nn
import jax
import jax.numpy as jnp

K_MASK = -2.3819763e38


@dataclasses.dataclass(frozen=True)
class DecoderConfig:
    embed_dim: int = 64
    num_heads: int = 4
    head_dim: int = 16
    attn_logits_soft_cap: float | None = 5.0
    sliding_window: int | None = None


class RMSNorm(nn.Module):
    @nn.compact
    def __call__(self, x):
        scale = self.param("scale", nn.initializers.zeros_init(), (x.shape[-1],))
        var = jnp.mean(jnp.square(x.astype(jnp.float32)), axis=-1, keepdims=True)
        return x * jax.lax.rsqrt(var + 1e-6).astype(x.dtype) * (1 + scale)


def make_causal_mask(positions, window=None):
    """positions [B, L] -> bool [B, L, L], True = may attend."""
    diff = positions[:, :, None] - positions[:, None, :]
    ok = diff >= 0
    if window is not None:
        ok = ok & (diff < window)
    return ok


def rope(x, positions, base=10_000):
    half = x.shape[-1] // 2
    timescale = base ** (jnp.arange(half) / half)
    ang = positions[..., None] / timescale
    sin, cos = jnp.sin(ang)[:, :, None, :], jnp.cos(ang)[:, :, None, :]
    a, b = jnp.split(x, 2, axis=-1)
    return jnp.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)


class CappedAttention(nn.Module):
    config: DecoderConfig

    @nn.compact
    def __call__(self, x, positions):
        cfg = self.config
        dense = lambda name: nn.DenseGeneral((cfg.num_heads, cfg.head_dim), use_bias=False, name=name)
        q, k, v = dense("q")(x), dense("k")(x), dense("v")(x)
        q = rope(q, positions) * cfg.head_dim ** -0.5
        k = rope(k, positions)

        logits = jnp.einsum("BTNH,BSNH->BTNS", q, k)
        mask = make_causal_mask(positions, cfg.sliding_window)
        logits = jnp.where(mask[:, :, None, :], logits, K_MASK)
        if cfg.attn_logits_soft_cap is not None:
            logits = jnp.tanh(logits / cfg.attn_logits_soft_cap) * cfg.attn_logits_soft_cap
        probs = jax.nn.softmax(logits.astype(jnp.float32), axis=-1).astype(x.dtype)
        enc = jnp.einsum("BTNS,BSNH->BTNH", probs, v)
        return nn.DenseGeneral(cfg.embed_dim, axis=(-2, -1), use_bias=False, name="o")(enc)


class Block(nn.Module):
    config: DecoderConfig

    @nn.compact
    def __call__(self, x, positions):
        x = x + CappedAttention(self.config, name="attn")(RMSNorm()(x), positions)
        h = RMSNorm()(x)
        gate, up = nn.Dense(128, use_bias=False)(h), nn.Dense(128, use_bias=False)(h)
        return x + nn.Dense(self.config.embed_dim, use_bias=False)(nn.gelu(gate) * up)
