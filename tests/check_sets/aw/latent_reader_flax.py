"""Latent reader for tactile + joint streams (robot hand policy), Flax."""
from typing import Optional

import flax.linen as nn
import jax
import jax.numpy as jnp


class LatentCross(nn.Module):
    """n learnt latents read a sensor sequence of any length.

    valid: bool [batch, time], True where a reading arrived.  If no reading at all arrived
    the read-out is zero.
    """
    n_latents: int
    width: int
    heads: int

    @nn.compact
    def __call__(self, stream, valid: Optional[jnp.ndarray] = None):
        B, T, _ = stream.shape
        hd = self.width // self.heads
        lat = self.param("latents", nn.initializers.normal(0.5), (self.n_latents, self.width))
        kv_in = nn.LayerNorm()(stream)
        q = nn.DenseGeneral((self.heads, hd), use_bias=False, name="to_q")(nn.LayerNorm()(lat))
        k = nn.DenseGeneral((self.heads, hd), use_bias=False, name="to_k")(kv_in)
        v = nn.DenseGeneral((self.heads, hd), use_bias=False, name="to_v")(kv_in)
        sim = jnp.einsum("nhd,bthd->bhnt", q / jnp.sqrt(hd), k)
        if valid is None:
            w = nn.softmax(sim, axis=-1)
        else:
            keep = valid[:, None, None, :]
            sim = jnp.where(keep, sim, -1e30)
            w = jnp.where(keep, nn.softmax(sim, axis=-1), 0.0)
        read = jnp.einsum("bhnt,bthd->bnhd", w, v)
        return nn.DenseGeneral(self.width, axis=(-2, -1), use_bias=False, name="to_out")(read)


class HandPolicy(nn.Module):
    n_actions: int
    width: int = 32
    heads: int = 4
    n_latents: int = 6

    @nn.compact
    def __call__(self, touch, joints, valid=None):
        z = LatentCross(self.n_latents, self.width, self.heads)(touch, valid)
        z = z + nn.Dense(self.width)(nn.gelu(nn.Dense(2 * self.width)(nn.LayerNorm()(z))))
        h = jnp.concatenate([z.reshape(z.shape[0], -1), joints], -1)
        mu = nn.Dense(self.n_actions)(nn.tanh(nn.Dense(64)(h)))
        log_std = self.param("log_std", nn.initializers.constant(-1.0), (self.n_actions,))
        return mu, jnp.broadcast_to(log_std, mu.shape)


def sample(key, mu, log_std):
    return jnp.tanh(mu + jnp.exp(log_std) * jax.random.normal(key, mu.shape))
