"""T5 attention in Flax, for grammar correction of short texts."""
import dataclasses

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np


@dataclasses.dataclass(unsafe_hash=True)
class T5Config:
  emb_dim: int = 32
  num_heads: int = 4
  head_dim: int = 8
  num_buckets: int = 32
  max_distance: int = 128


def relative_position_bucket(relative_position, bidirectional, num_buckets, max_distance):
  """relative_position = memory position - query position; see the Mesh TensorFlow code."""
  ret = 0
  n = -relative_position
  if bidirectional:
    num_buckets //= 2
    ret += (n < 0).astype(np.int32) * num_buckets
    n = np.abs(n)
  else:
    n = np.maximum(n, 0)
  max_exact = num_buckets // 2
  is_small = n < max_exact
  val_if_large = max_exact + (
      np.log(n.astype(np.float32) / max_exact + np.finfo(np.float32).eps)
      / np.log(max_distance / max_exact) * (num_buckets - max_exact)).astype(np.int32)
  val_if_large = np.minimum(val_if_large, num_buckets - 1)
  return ret + np.where(is_small, n, val_if_large)


class RelativePositionBias(nn.Module):
  cfg: T5Config
  bidirectional: bool

  @nn.compact
  def __call__(self, qlen, klen):
    rel = np.arange(klen)[None, :] - np.arange(qlen)[:, None]
    bucket = relative_position_bucket(rel, self.bidirectional, self.cfg.num_buckets, self.cfg.max_distance)
    table = self.param('rel_embedding', nn.initializers.normal(1.0), (self.cfg.num_heads, self.cfg.num_buckets))
    return table[:, bucket][None]  # (1, heads, qlen, klen)


class T5Attention(nn.Module):
  """Multi-head dot-product attention of T5.

  The logits are not divided by sqrt(head_dim): as in T5 the factor sits in the initialiser of
  the query kernel.  `causal` is for self-attention.  `mask` broadcasts to (batch, heads, qlen, klen), nonzero = attend.
  """
  cfg: T5Config
  causal: bool = False
  has_relative_bias: bool = True

  @nn.compact
  def __call__(self, inputs_q, inputs_kv=None, mask=None):
    cfg = self.cfg
    inputs_kv = inputs_q if inputs_kv is None else inputs_kv
    depth_scaling = np.sqrt(cfg.head_dim)

    def query_init(key, shape, dtype=jnp.float32):
      return nn.initializers.normal(cfg.emb_dim ** -0.5)(key, shape, dtype) / depth_scaling

    def proj(name, init):
      return nn.Dense(cfg.num_heads * cfg.head_dim, use_bias=False, kernel_init=init, name=name)

    kv_init = nn.initializers.normal(cfg.emb_dim ** -0.5)
    split = lambda x: x.reshape(*x.shape[:-1], cfg.num_heads, cfg.head_dim)
    query = split(proj('query', query_init)(inputs_q))
    key = split(proj('key', kv_init)(inputs_kv))
    value = split(proj('value', kv_init)(inputs_kv))

    logits = jnp.einsum('bqhd,bkhd->bhqk', query, key)
    qlen, klen = logits.shape[-2:]
    if self.has_relative_bias:
      logits += RelativePositionBias(cfg, not self.causal, name='relpos_bias')(qlen, klen)
    if self.causal:
      tri = nn.make_causal_mask(jnp.ones((1, qlen)))
      mask = tri if mask is None else nn.combine_masks(tri, mask)
    if mask is not None:
      logits = jnp.where(mask > 0, logits, -1e10)

    weights = jax.nn.softmax(logits.astype(jnp.float32)).astype(inputs_q.dtype)
    out = jnp.einsum('bhqk,bkhd->bqhd', weights, value)
    out = out.reshape(*out.shape[:2], cfg.num_heads * cfg.head_dim)
    return nn.Dense(cfg.emb_dim, use_bias=False, name='out')(out)


class EncoderLayer(nn.Module):
  cfg: T5Config

  @nn.compact
  def __call__(self, x, mask=None):
    x = x + T5Attention(self.cfg, name='attention')(nn.RMSNorm(use_scale=True)(x), mask=mask)
    h = nn.RMSNorm(use_scale=True)(x)
    gate = nn.gelu(nn.Dense(64, use_bias=False)(h)) * nn.Dense(64, use_bias=False)(h)
    return x + nn.Dense(self.cfg.emb_dim, use_bias=False)(gate)


if __name__ == '__main__':
  layer = EncoderLayer(T5Config())
  x = jax.random.normal(jax.random.PRNGKey(0), (2, 9, 32))
  print(layer.init_with_output(jax.random.PRNGKey(1), x)[0].shape)
