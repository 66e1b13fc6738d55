"""Object discovery with slots (Locatello et al. 2020) in flax.linen."""
from typing import Any, Sequence

import flax.linen as nn
import jax
import jax.numpy as jnp

Array = Any


class SoftPositionEmbed(nn.Module):
  resolution: Sequence[int]

  @nn.compact
  def __call__(self, x: Array) -> Array:
    h, w = self.resolution
    gy, gx = jnp.meshgrid(jnp.linspace(0., 1., h), jnp.linspace(0., 1., w), indexing='ij')
    grid = jnp.stack([gy, gx, 1 - gy, 1 - gx], -1)[None]
    return x + nn.Dense(x.shape[-1], name='proj')(grid)


class SlotAttention(nn.Module):
  """Iterative attention in which the slots compete for the input positions.

  For every input position the weights add up to one over the SLOTS; a slot is then
  updated with the weighted mean of the values (weights divided by their sum over
  the inputs, plus epsilon).

  Attributes:
    num_iters: rounds of competition.
    mlp_dim: hidden size of the residual MLP.
    epsilon: added to the weights before the mean is taken.
  """
  num_iters: int = 3
  mlp_dim: int = 32
  epsilon: float = 1e-8

  @nn.compact
  def __call__(self, slots: Array, inputs: Array) -> Array:
    """slots [B, K, D], inputs [B, N, F] -> slots [B, K, D]."""
    dim = slots.shape[-1]
    inputs = nn.LayerNorm(name='norm_inputs')(inputs)
    k = nn.Dense(dim, use_bias=False, name='k')(inputs)
    v = nn.Dense(dim, use_bias=False, name='v')(inputs)
    to_q = nn.Dense(dim, use_bias=False, name='q')
    norm_slots = nn.LayerNorm(name='norm_slots')
    norm_mlp = nn.LayerNorm(name='norm_mlp')
    gru = nn.GRUCell(features=dim, name='gru')
    up, down = nn.Dense(self.mlp_dim, name='up'), nn.Dense(dim, name='down')

    for _ in range(self.num_iters):
      prev = slots
      q = to_q(norm_slots(slots)) * dim ** -0.5
      logits = jnp.einsum('bnd,bkd->bnk', k, q)
      attn = jax.nn.softmax(logits, axis=-1) + self.epsilon
      attn = attn / jnp.sum(attn, axis=1, keepdims=True)
      updates = jnp.einsum('bnk,bnd->bkd', attn, v)
      slots, _ = gru(prev, updates)
      slots = slots + down(nn.relu(up(norm_mlp(slots))))
    return slots


class SlotDecoder(nn.Module):
  """Spatial broadcast decoder: every slot paints an image and a mask."""
  resolution: Sequence[int]
  hidden: int = 16

  @nn.compact
  def __call__(self, slots: Array):
    b, k, d = slots.shape
    h, w = self.resolution
    x = jnp.broadcast_to(slots.reshape(b * k, 1, 1, d), (b * k, h, w, d))
    x = SoftPositionEmbed(self.resolution)(x)
    x = nn.relu(nn.Conv(self.hidden, (3, 3))(x))
    x = nn.Conv(4, (3, 3))(x).reshape(b, k, h, w, 4)
    rgb, alpha = x[..., :3], nn.softmax(x[..., 3:], axis=1)
    return jnp.sum(rgb * alpha, 1), alpha


class ObjectModel(nn.Module):
  num_slots: int = 5
  slot_dim: int = 16
  resolution: Sequence[int] = (8, 8)

  @nn.compact
  def __call__(self, images: Array, key: Array):
    x = nn.relu(nn.Conv(16, (5, 5))(images))
    x = SoftPositionEmbed(self.resolution)(x)
    x = x.reshape(x.shape[0], -1, x.shape[-1])
    x = nn.Dense(16)(nn.relu(nn.Dense(16)(nn.LayerNorm()(x))))
    mu = self.param('mu', nn.initializers.normal(1.), (1, 1, self.slot_dim))
    log_sigma = self.param('log_sigma', nn.initializers.normal(.1), (1, 1, self.slot_dim))
    noise = jax.random.normal(key, (x.shape[0], self.num_slots, self.slot_dim))
    slots = SlotAttention()(mu + jnp.exp(log_sigma) * noise, x)
    return SlotDecoder(self.resolution)(slots)


def reconstruction_loss(params, model, images, key):
  recon, _ = model.apply(params, images, key)
  return jnp.mean((recon - images) ** 2)
