"""Perceiver encoder (Jaegle et al., 2021) in Flax linen.

A few learned latents read the input bytes by cross-attention, then process
themselves by self-attention. `input_mask` [B, M] is True for valid inputs; every
example has at least one. Widths of q/k and of v may differ.
"""
from typing import Optional

import flax.linen as nn
import jax
import jax.numpy as jnp


class Attention(nn.Module):
    num_heads: int
    qk_channels: int
    v_channels: int
    out_channels: int

    @nn.compact
    def __call__(self, x_q, x_kv, mask: Optional[jax.Array] = None):
        H = self.num_heads
        q = nn.DenseGeneral((H, self.qk_channels // H), name="q")(x_q)
        k = nn.DenseGeneral((H, self.qk_channels // H), name="k")(x_kv)
        v = nn.DenseGeneral((H, self.v_channels // H), name="v")(x_kv)
        logits = jnp.einsum("bthd,bshd->bhts", q, k)
        logits = logits / jnp.sqrt(self.qk_channels // H)
        if mask is not None:
            logits = jnp.where(mask[:, None, None, :], logits, jnp.finfo(logits.dtype).min)
        w = jax.nn.softmax(logits, axis=-1)
        y = jnp.einsum("bhts,bshd->bthd", w, v)
        return nn.DenseGeneral(self.out_channels, axis=(-2, -1), name="out")(y)


class MLP(nn.Module):
    widening: int = 2

    @nn.compact
    def __call__(self, x):
        h = nn.Dense(self.widening * x.shape[-1])(x)
        return nn.Dense(x.shape[-1])(nn.gelu(h))


class PerceiverEncoder(nn.Module):
    num_latents: int = 6
    latent_dim: int = 24
    cross_heads: int = 1
    self_heads: int = 3
    qk_channels: int = 18
    depth: int = 2

    @nn.compact
    def __call__(self, inputs, input_mask=None):
        B = inputs.shape[0]
        D = self.latent_dim
        z = self.param("latents", nn.initializers.normal(0.5), (self.num_latents, D))
        z = jnp.broadcast_to(z, (B, self.num_latents, D))

        cross = Attention(self.cross_heads, self.qk_channels, D, D, name="cross")
        z = z + cross(nn.LayerNorm(name="ln_q")(z), nn.LayerNorm(name="ln_kv")(inputs), input_mask)
        z = z + MLP(name="cross_mlp")(nn.LayerNorm(name="ln_m")(z))

        for i in range(self.depth):
            n = nn.LayerNorm(name=f"ln_s{i}")(z)
            z = z + Attention(self.self_heads, self.qk_channels, D, D, name=f"self{i}")(n, n)
            z = z + MLP(name=f"mlp{i}")(nn.LayerNorm(name=f"ln_f{i}")(z))
        return z


if __name__ == "__main__":
    m = PerceiverEncoder()
    x = jnp.ones((2, 9, 5))
    params = m.init(jax.random.key(0), x)
    print(m.apply(params, x).shape)
