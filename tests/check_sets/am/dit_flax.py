"""DiT (diffusion transformer) block in Flax linen, with adaLN-Zero conditioning."""
import math

import flax.linen as nn
import jax
import jax.numpy as jnp


def timestep_embedding(t, dim, max_period=10000):
    half = dim // 2
    freqs = jnp.exp(-math.log(max_period) * jnp.arange(half) / half)
    args = t[:, None] * freqs[None]
    return jnp.concatenate([jnp.cos(args), jnp.sin(args)], axis=-1)


def modulate(x, shift, scale):
    return x * (1 + scale[:, None]) + shift[:, None]


class SelfAttention(nn.Module):
    num_heads: int
    qk_norm: bool = False
    dropout: float = 0.0

    @nn.compact
    def __call__(self, x, deterministic=True):
        b, n, c = x.shape
        d = c // self.num_heads
        qkv = nn.Dense(3 * c, name="qkv")(x).reshape(b, n, 3, self.num_heads, d)
        q, k, v = qkv[:, :, 0], qkv[:, :, 1], qkv[:, :, 2]
        if self.qk_norm:
            q, k = nn.LayerNorm(name="q_norm")(q), nn.LayerNorm(name="k_norm")(k)
        logits = jnp.einsum("bqhd,bkhd->bhqk", q, k) / math.sqrt(d)
        w = jax.nn.softmax(logits, axis=-1)
        w = nn.Dropout(self.dropout)(w, deterministic=deterministic)
        out = jnp.einsum("bhqk,bkhd->bqhd", w, v).reshape(b, n, c)
        return nn.Dense(c, name="proj")(out)


class DiTBlock(nn.Module):
    num_heads: int
    mlp_ratio: float = 4.0

    @nn.compact
    def __call__(self, x, c, deterministic=True):
        dim = x.shape[-1]
        mods = nn.Dense(6 * dim, kernel_init=nn.initializers.zeros, name="adaLN")(nn.silu(c))
        sh1, sc1, g1, sh2, sc2, g2 = jnp.split(mods, 6, axis=-1)
        ln = nn.LayerNorm(use_bias=False, use_scale=False, epsilon=1e-6)
        x = x + g1[:, None] * SelfAttention(self.num_heads, name="attn")(
            modulate(ln(x), sh1, sc1), deterministic)
        ln2 = nn.LayerNorm(use_bias=False, use_scale=False, epsilon=1e-6)
        h = nn.Dense(int(dim * self.mlp_ratio))(modulate(ln2(x), sh2, sc2))
        h = nn.Dense(dim)(nn.gelu(h, approximate=True))
        return x + g2[:, None] * h


class DiT(nn.Module):
    patch: int = 2
    dim: int = 32
    depth: int = 2
    heads: int = 4

    @nn.compact
    def __call__(self, img, t):
        b, h, w, ch = img.shape
        x = nn.Conv(self.dim, (self.patch, self.patch), (self.patch, self.patch))(img)
        hh, ww = x.shape[1:3]
        x = x.reshape(b, hh * ww, self.dim)
        x = x + self.param("pos", nn.initializers.normal(0.02), (1, hh * ww, self.dim))
        c = nn.Dense(self.dim)(timestep_embedding(t, 64))
        for i in range(self.depth):
            x = DiTBlock(self.heads, name=f"block{i}")(x, c)
        x = nn.Dense(self.patch ** 2 * ch)(nn.LayerNorm()(x))
        x = x.reshape(b, hh, ww, self.patch, self.patch, ch)
        return x.transpose(0, 1, 3, 2, 4, 5).reshape(b, h, w, ch)
