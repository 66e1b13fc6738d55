"""Gemma-2 inspired decoder in Flax linen: soft-capped logits, GQA with one kv head per group."""
from dataclasses import dataclass
from typing import Optional

import flax.linen as nn
import jax
import jax.numpy as jnp


@dataclass(frozen=True)
class GemmaConfig:
    embed_dim: int = 32
    num_heads: int = 4
    num_kv_heads: int = 2
    head_dim: int = 8
    query_pre_attn_scalar: float = 8.0  # = head_dim
    attn_logits_soft_cap: float = 5.0
    final_logit_soft_cap: float = 30.0
    vocab: int = 128


def soft_cap(x, cap):
    return cap * jnp.tanh(x / cap)


def make_causal_bias(n, valid, dtype=jnp.float32):
    """[B, 1, n, n] bias, 0 where a token may be read, a huge negative number elsewhere."""
    ok = jnp.tril(jnp.ones((n, n), dtype=bool))[None]
    if valid is not None:
        ok = ok & valid[:, None, :]
    return jnp.where(ok, 0.0, -2.3819763e38).astype(dtype)[:, None]


class GemmaAttention(nn.Module):
    """Causal attention.  x [B, T, D]; valid [B, T] bool, False = padding (at the end).

    Logits are limited to +-attn_logits_soft_cap before the softmax.
    """

    config: GemmaConfig

    @nn.compact
    def __call__(self, x: jax.Array, valid: Optional[jax.Array] = None) -> jax.Array:
        c = self.config
        init = nn.initializers.normal(0.3)
        wq = self.param("q_einsum", init, (c.num_heads, c.embed_dim, c.head_dim))
        wkv = self.param("kv_einsum", init, (2, c.num_kv_heads, c.embed_dim, c.head_dim))
        wo = self.param("attn_vec_einsum", init, (c.num_heads, c.head_dim, c.embed_dim))
        B, T, _ = x.shape
        q = jnp.einsum("BTD,NDH->BTNH", x, wq) * c.query_pre_attn_scalar ** -0.5
        k, v = jnp.einsum("BSD,CKDH->CBSKH", x, wkv)
        q = q.reshape(B, T, c.num_kv_heads, c.num_heads // c.num_kv_heads, c.head_dim)
        logits = jnp.einsum("BTKGH,BSKH->BKGTS", q, k)
        logits = logits.reshape(B, c.num_heads, T, T)
        logits = logits + make_causal_bias(T, valid)
        logits = soft_cap(logits, c.attn_logits_soft_cap)
        probs = jax.nn.softmax(logits.astype(jnp.float32), axis=-1).astype(x.dtype)
        probs = probs.reshape(B, c.num_kv_heads, -1, T, T)
        enc = jnp.einsum("BKGTS,BSKH->BTKGH", probs, v).reshape(B, T, c.num_heads, c.head_dim)
        return jnp.einsum("BTNH,NHD->BTD", enc, wo)


class GemmaBlock(nn.Module):
    config: GemmaConfig

    @nn.compact
    def __call__(self, x, valid=None):
        x = x + nn.RMSNorm()(GemmaAttention(self.config)(nn.RMSNorm()(x), valid))
        h = nn.RMSNorm()(x)
        g = nn.gelu(nn.Dense(64, use_bias=False)(h)) * nn.Dense(64, use_bias=False)(h)
        return x + nn.RMSNorm()(nn.Dense(self.config.embed_dim, use_bias=False)(g))


class GemmaMini(nn.Module):
    config: GemmaConfig
    depth: int = 2

    @nn.compact
    def __call__(self, tokens, valid=None):
        emb = nn.Embed(self.config.vocab, self.config.embed_dim)
        x = emb(tokens) * jnp.sqrt(self.config.embed_dim)
        for _ in range(self.depth):
            x = GemmaBlock(self.config)(x, valid)
        return soft_cap(emb.attend(nn.RMSNorm()(x)), self.config.final_logit_soft_cap)
