"""Multi-head attention of the translation example, in Flax linen.

Layout is [batch, length, heads, head_dim] throughout. Masks are boolean,
[batch or 1, 1, q_len, kv_len], True = attend.
"""
from typing import Any, Callable, Optional

import flax.linen as nn
import jax
import jax.numpy as jnp
from flax import struct
from jax import lax


@struct.dataclass
class TransformerConfig:
    emb_dim: int = 64
    num_heads: int = 4
    mlp_dim: int = 128
    max_len: int = 32
    dtype: Any = jnp.float32
    decode: bool = False
    kernel_init: Callable = nn.initializers.xavier_uniform()


def make_padding_mask(tokens, pad_id=0):
    return (tokens != pad_id)[:, None, None, :]


def make_decoder_mask(tokens, pad_id=0):
    n = tokens.shape[-1]
    idx = jnp.arange(n)
    causal = (idx[:, None] >= idx[None, :])[None, None]
    return jnp.logical_and(causal, make_padding_mask(tokens, pad_id))


def masked_softmax(logits, mask, dtype):
    logits = logits.astype(jnp.float32)
    if mask is None:
        return jax.nn.softmax(logits, axis=-1).astype(dtype)
    logits = jnp.where(mask, logits, jnp.finfo(jnp.float32).min)
    return jnp.where(mask, jax.nn.softmax(logits, axis=-1), 0.0).astype(dtype)


class CachedAttention(nn.Module):
    config: TransformerConfig

    @nn.compact
    def __call__(self, inputs_q, inputs_kv, mask: Optional[jnp.ndarray] = None, decode: bool = False):
        cfg = self.config
        features = (cfg.num_heads, cfg.emb_dim // cfg.num_heads)

        def dense(name):
            return nn.DenseGeneral(features, axis=-1, use_bias=False, kernel_init=cfg.kernel_init, dtype=cfg.dtype, name=name)

        q, k, v = dense("query")(inputs_q), dense("key")(inputs_kv), dense("value")(inputs_kv)

        if decode:
            # one token per call; the cache must be initialised with init_cache()
            ck = self.variable("cache", "cached_key", jnp.zeros, (k.shape[0], cfg.max_len) + features, k.dtype)
            cv = self.variable("cache", "cached_value", jnp.zeros, (k.shape[0], cfg.max_len) + features, v.dtype)
            ci = self.variable("cache", "cache_index", lambda: jnp.array(0, jnp.int32))
            if q.shape[1] != 1:
                raise ValueError("decode wants one token at a time")
            pos = ci.value
            zero = jnp.zeros_like(pos)
            k = lax.dynamic_update_slice(ck.value, k, (zero, pos, zero, zero))
            v = lax.dynamic_update_slice(cv.value, v, (zero, pos, zero, zero))
            if not self.is_initializing():
                ck.value, cv.value, ci.value = k, v, pos + 1
            seen = (jnp.arange(cfg.max_len) <= pos)[None, None, None, :]
            mask = seen if mask is None else jnp.logical_and(mask, seen)

        q = q / jnp.sqrt(features[1]).astype(q.dtype)
        logits = jnp.einsum("bqhd,bkhd->bhqk", q, k)
        weights = masked_softmax(logits, mask, cfg.dtype)
        y = jnp.einsum("bhqk,bkhd->bqhd", weights, v)
        return nn.DenseGeneral(cfg.emb_dim, axis=(-2, -1), use_bias=False, kernel_init=cfg.kernel_init, dtype=cfg.dtype, name="out")(y)


class MlpBlock(nn.Module):
    config: TransformerConfig

    @nn.compact
    def __call__(self, x):
        h = nn.relu(nn.Dense(self.config.mlp_dim, dtype=self.config.dtype)(x))
        return nn.Dense(x.shape[-1], dtype=self.config.dtype)(h)


class EncoderDecoder1DBlock(nn.Module):
    config: TransformerConfig

    @nn.compact
    def __call__(self, targets, encoded, decoder_mask=None, encoder_decoder_mask=None):
        cfg = self.config
        x = nn.LayerNorm()(targets)
        x = targets + CachedAttention(cfg)(x, x, decoder_mask, decode=cfg.decode)
        y = nn.LayerNorm()(x)
        y = x + CachedAttention(cfg)(y, encoded, encoder_decoder_mask)
        return y + MlpBlock(cfg)(nn.LayerNorm()(y))


def init_cache(module, rng, batch, cfg):
    x = jnp.zeros((batch, 1, cfg.emb_dim), cfg.dtype)
    shapes = jax.eval_shape(lambda: module.init(rng, x, x, decode=True))["cache"]
    return jax.tree_util.tree_map(lambda s: jnp.zeros(s.shape, s.dtype), shapes)
