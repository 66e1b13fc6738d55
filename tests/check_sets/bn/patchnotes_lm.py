"""Commit-message language model, flax.linen, Gemma-flavoured.

Differences to a plain GPT: RMSNorm with (1 + scale), GeGLU, multi-query
attention, logit soft capping.  A capped logit lies in (-softcap, softcap);
padding and future positions never receive any weight.
"""
import dataclasses

import flax.linen as nn
import jax
import jax.numpy as jnp

BIG_NEG = -2.3819763e38


@dataclasses.dataclass(frozen=True)
class LMConfig:
  vocab: int = 260          # bytes + bos, eos, pad, unk
  width: int = 32
  heads: int = 4
  head_dim: int = 8
  mlp: int = 64
  depth: int = 2
  attn_softcap: float = 20.0
  final_softcap: float = 30.0
  max_len: int = 64


def soft_cap(x, cap):
  return jnp.tanh(x / cap) * cap


class RMSNorm(nn.Module):

  @nn.compact
  def __call__(self, x):
    scale = self.param('scale', nn.initializers.zeros_init(), (x.shape[-1],))
    var = jnp.mean(jnp.square(x), axis=-1, keepdims=True)
    return x * jax.lax.rsqrt(var + 1e-6) * (1 + scale)


def make_attention_mask(valid):
  """valid [B, L] bool, True = real byte -> [B, L, L] bool, True = may attend"""
  L = valid.shape[-1]
  causal = jnp.tril(jnp.ones((L, L), dtype=bool))
  return causal[None] & valid[:, None, :]


class MQAttention(nn.Module):
  """x [B, L, width], attn_mask [B, L, L] bool (True = may attend)"""
  cfg: LMConfig

  @nn.compact
  def __call__(self, x, attn_mask):
    c = self.cfg
    q = nn.DenseGeneral((c.heads, c.head_dim), use_bias=False, name='q')(x)
    k = nn.Dense(c.head_dim, use_bias=False, name='k')(x)
    v = nn.Dense(c.head_dim, use_bias=False, name='v')(x)
    q = q * c.head_dim ** -0.5
    logits = jnp.einsum('BTNH,BSH->BNTS', q, k)
    logits = jnp.where(attn_mask[:, None], logits, BIG_NEG)
    logits = soft_cap(logits, c.attn_softcap)
    probs = jax.nn.softmax(logits, axis=-1)
    encoded = jnp.einsum('BNTS,BSH->BTNH', probs, v)
    return nn.DenseGeneral(c.width, axis=(-2, -1), use_bias=False, name='out')(encoded)


class GeGLU(nn.Module):
  hidden: int

  @nn.compact
  def __call__(self, x):
    gate = nn.gelu(nn.Dense(self.hidden, use_bias=False)(x))
    up = nn.Dense(self.hidden, use_bias=False)(x)
    return nn.Dense(x.shape[-1], use_bias=False)(gate * up)


class Block(nn.Module):
  cfg: LMConfig

  @nn.compact
  def __call__(self, x, mask):
    a = MQAttention(self.cfg, name='attn')(RMSNorm()(x), mask)
    x = x + RMSNorm()(a)
    f = GeGLU(self.cfg.mlp)(RMSNorm()(x))
    return x + RMSNorm()(f)


class PatchNotesLM(nn.Module):
  cfg: LMConfig = LMConfig()

  @nn.compact
  def __call__(self, ids, valid):
    c = self.cfg
    emb = self.param('embed', nn.initializers.normal(1.0), (c.vocab, c.width))
    pos = self.param('pos', nn.initializers.normal(0.02), (c.max_len, c.width))
    x = emb[ids] * jnp.sqrt(c.width) + pos[: ids.shape[1]]
    mask = make_attention_mask(valid)
    for i in range(c.depth):
      x = Block(c, name=f'layer_{i}')(x, mask)
    return soft_cap(RMSNorm()(x) @ emb.T, c.final_softcap)


def encode(msg: str, length: int):
  raw = [256] + list(msg.encode())[: length - 2] + [257]
  pad = length - len(raw)
  return jnp.array(raw + [258] * pad), jnp.array([True] * len(raw) + [False] * pad)


def nll(params, model, ids, valid):
  logp = jax.nn.log_softmax(model.apply(params, ids[:, :-1], valid[:, :-1]))
  tok = jnp.take_along_axis(logp, ids[:, 1:, None], -1)[..., 0]
  return -(tok * valid[:, 1:]).sum() / valid[:, 1:].sum()
