"""A small Gemma-2 like block in Flax: logit soft-capping, GQA, rotary positions."""
import dataclasses
from typing import Optional

import flax.linen as nn
import jax
import jax.numpy as jnp


@dataclasses.dataclass(frozen=True)
class GemmaConfig:
    embed_dim: int = 32
    num_heads: int = 4
    num_kv_heads: int = 2
    head_dim: int = 8
    hidden_dim: int = 64
    attn_logits_soft_cap: Optional[float] = 5.0
    query_pre_attn_scalar: float = 8 ** -0.5


K_MASK = -2.3819763e38


def apply_rope(x, positions, base=10_000.0):
    """x [B, L, N, H], halves rotated."""
    half = x.shape[-1] // 2
    timescale = base ** (jnp.arange(half) * 2.0 / x.shape[-1])
    ang = (positions[..., None] / timescale)[..., None, :]
    a, b = jnp.split(x, 2, axis=-1)
    return jnp.concatenate([a * jnp.cos(ang) - b * jnp.sin(ang), b * jnp.cos(ang) + a * jnp.sin(ang)], -1)


class GemmaAttention(nn.Module):
    config: GemmaConfig

    @nn.compact
    def __call__(self, x, positions, attn_mask):
        """attn_mask: [B, L, S] bool, True where a query may see a key. Masked keys get
        no weight; soft-capping bounds the logits of the visible ones."""
        c = self.config
        init = nn.initializers.normal(0.2)
        wq = self.param("q_einsum", init, (c.num_heads, c.embed_dim, c.head_dim))
        wkv = self.param("kv_einsum", init, (2, c.num_kv_heads, c.embed_dim, c.head_dim))
        wo = self.param("attn_vec_einsum", init, (c.num_heads, c.head_dim, c.embed_dim))
        q = jnp.einsum("BTD,NDH->BTNH", x, wq)
        k, v = jnp.einsum("BSD,CKDH->CBSKH", x, wkv)
        q = apply_rope(q, positions) * c.query_pre_attn_scalar
        k = apply_rope(k, positions)
        b, t, n, h = q.shape
        q = q.reshape(b, t, c.num_kv_heads, n // c.num_kv_heads, h)
        logits = jnp.einsum("BTKGH,BSKH->BTKGS", q, k)
        logits = jnp.where(attn_mask[:, :, None, None, :], logits, K_MASK)
        if c.attn_logits_soft_cap is not None:
            logits = jnp.tanh(logits / c.attn_logits_soft_cap) * c.attn_logits_soft_cap
        probs = jax.nn.softmax(logits, axis=-1)
        enc = jnp.einsum("BTKGS,BSKH->BTKGH", probs, v).reshape(b, t, n, h)
        return jnp.einsum("BTNH,NHD->BTD", enc, wo)


class RMSNorm(nn.Module):
    @nn.compact
    def __call__(self, x):
        s = self.param("scale", nn.initializers.zeros, (x.shape[-1],))
        return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * (1 + s)


class GemmaBlock(nn.Module):
    config: GemmaConfig

    @nn.compact
    def __call__(self, x, positions, attn_mask):
        y = GemmaAttention(self.config, name="attn")(RMSNorm()(x), positions, attn_mask)
        x = x + RMSNorm()(y)
        h = RMSNorm()(x)
        gate = nn.gelu(nn.Dense(self.config.hidden_dim, use_bias=False)(h))
        up = nn.Dense(self.config.hidden_dim, use_bias=False)(h)
        return x + RMSNorm()(nn.Dense(self.config.embed_dim, use_bias=False)(gate * up))


def make_causal_mask(input_mask):
    """input_mask [B, L] True for real tokens."""
    l = input_mask.shape[-1]
    return input_mask[:, None, :] & jnp.tril(jnp.ones((l, l), bool))[None]
