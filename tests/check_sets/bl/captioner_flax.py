# Copyright 2024 The Authors.
# SPDX-License-Identifier: Apache-2.0
"""Caption decoder with autoregressive caching (Flax linen)."""
from typing import Any, Optional

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax import lax

Array = jax.Array


def fixed_pos_embedding(positions: Array, dim: int, base: float = 10_000.0):
  inv_freq = 1.0 / (base ** (jnp.arange(0, dim, 2) / dim))
  sinusoid = jnp.einsum('i,j->ij', positions, inv_freq)
  return jnp.sin(sinusoid), jnp.cos(sinusoid)


def rotate_every_two(x: Array) -> Array:
  x1, x2 = x[..., ::2], x[..., 1::2]
  return jnp.stack((-x2, x1), axis=-1).reshape(x.shape)


def apply_rotary(x: Array, sincos) -> Array:
  """x: [batch, length, heads, dim], interleaved pairs as in GPT-J."""
  sin, cos = (jnp.repeat(t, 2, axis=-1)[None, :, None, :] for t in sincos)
  return x * cos + rotate_every_two(x) * sin


class CausalSelfAttention(nn.Module):
  """Causal multi-head self-attention with rotary positions.

  With `decode=True` the call appends the new tokens to the `cache` collection (at most
  `max_len` tokens); feeding a sequence in pieces gives what feeding it at once gives.
  """
  num_heads: int
  max_len: int = 64
  dtype: Any = jnp.float32

  @nn.compact
  def __call__(self, x: Array, decode: bool = False) -> Array:
    b, t, features = x.shape
    head_dim = features // self.num_heads
    dense = lambda name: nn.DenseGeneral((self.num_heads, head_dim), use_bias=False, dtype=self.dtype, name=name)
    query, key, value = dense('query')(x), dense('key')(x), dense('value')(x)

    sincos = fixed_pos_embedding(jnp.arange(t), head_dim)
    query = apply_rotary(query, sincos)
    key = apply_rotary(key, sincos)

    q_pos = jnp.arange(t)
    if decode:
      shape = (b, self.max_len, self.num_heads, head_dim)
      cached_key = self.variable('cache', 'cached_key', jnp.zeros, shape, key.dtype)
      cached_value = self.variable('cache', 'cached_value', jnp.zeros, shape, value.dtype)
      cache_index = self.variable('cache', 'cache_index', lambda: jnp.array(0, jnp.int32))
      cur = cache_index.value
      key = lax.dynamic_update_slice(cached_key.value, key, (0, cur, 0, 0))
      value = lax.dynamic_update_slice(cached_value.value, value, (0, cur, 0, 0))
      if not self.is_initializing():
        cached_key.value, cached_value.value = key, value
        cache_index.value = cur + t
      q_pos = q_pos + cur

    mask = q_pos[:, None] >= jnp.arange(key.shape[1])[None, :]
    scores = jnp.einsum('bqhd,bkhd->bhqk', query, key) / jnp.sqrt(head_dim)
    scores = jnp.where(mask, scores, jnp.finfo(scores.dtype).min)
    weights = nn.softmax(scores.astype(jnp.float32), axis=-1).astype(self.dtype)
    out = jnp.einsum('bhqk,bkhd->bqhd', weights, value)
    return nn.DenseGeneral(features, axis=(-2, -1), use_bias=False, dtype=self.dtype, name='out')(out)


class CaptionDecoder(nn.Module):
  vocab_size: int
  features: int = 32
  num_heads: int = 4
  num_layers: int = 2

  @nn.compact
  def __call__(self, tokens: Array, image: Optional[Array] = None, decode: bool = False) -> Array:
    embed = nn.Embed(self.vocab_size, self.features)
    x = embed(tokens)
    if image is not None:
      x = x + nn.Dense(self.features, name='image_proj')(image)[:, None]
    for i in range(self.num_layers):
      x = x + CausalSelfAttention(self.num_heads, name=f'attn_{i}')(nn.LayerNorm()(x), decode)
      h = nn.Dense(4 * self.features)(nn.LayerNorm()(x))
      x = x + nn.Dense(self.features)(nn.gelu(h))
    return embed.attend(nn.LayerNorm()(x))


def greedy(model, params, bos, steps):
  """bos: [batch, 1]"""
  cache = model.init(jax.random.PRNGKey(0), bos, decode=True)['cache']
  tok, out = bos, []
  for _ in range(steps):
    logits, upd = model.apply({'params': params, 'cache': cache}, tok, decode=True, mutable=['cache'])
    cache = upd['cache']
    tok = jnp.argmax(logits[:, -1:], axis=-1)
    out.append(tok)
  return jnp.concatenate(out, axis=1)
