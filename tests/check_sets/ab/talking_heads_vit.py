"""CaiT-like vision transformer in Flax: talking-heads attention and layer scale."""
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp


class TalkingHeadsAttention(nn.Module):
    """The heads are mixed linearly before the softmax (logits) and again after it
    (weights), Shazeer et al. 2020. After the second mixing the rows are no
    distributions any more."""

    dim: int
    heads: int
    dtype: Any = jnp.float32

    @nn.compact
    def __call__(self, x, train: bool = False):
        b, n, _ = x.shape
        hd = self.dim // self.heads
        qkv = nn.Dense(3 * self.dim, use_bias=False, dtype=self.dtype, name="qkv")(x)
        qkv = qkv.reshape(b, n, 3, self.heads, hd)
        q, k, v = jnp.moveaxis(qkv, 2, 0)

        w_pre = self.param("mix_logits", nn.initializers.normal(0.5), (self.heads, self.heads))
        w_post = self.param("mix_weights", nn.initializers.normal(0.5), (self.heads, self.heads))
        b_pre = self.param("bias_logits", nn.initializers.zeros, (self.heads,))

        logits = jnp.einsum("bqhd,bkhd->bhqk", q * hd ** -0.5, k)
        logits = jnp.einsum("bhqk,hg->bgqk", logits, w_pre) + b_pre[:, None, None]
        weights = nn.softmax(logits, axis=-1)
        weights = jnp.einsum("bhqk,hg->bgqk", weights, w_post)
        y = jnp.einsum("bhqk,bkhd->bqhd", weights, v).reshape(b, n, self.dim)
        return nn.Dense(self.dim, dtype=self.dtype, name="proj")(y)


class CaitBlock(nn.Module):
    dim: int
    heads: int
    eps: float = 1e-5
    drop_path: float = 0.0

    def layer_scale(self, y, name):
        g = self.param(name, nn.initializers.constant(self.eps), (self.dim,))
        return g * y

    @nn.compact
    def __call__(self, x, train: bool = False):
        y = TalkingHeadsAttention(self.dim, self.heads)(nn.LayerNorm()(x), train)
        x = x + self.layer_scale(y, "gamma_1")
        y = nn.LayerNorm()(x)
        y = nn.Dense(self.dim)(nn.gelu(nn.Dense(4 * self.dim)(y)))
        return x + self.layer_scale(y, "gamma_2")


class PatchEmbed(nn.Module):
    dim: int
    patch: int = 8

    @nn.compact
    def __call__(self, img):
        x = nn.Conv(self.dim, (self.patch, self.patch), strides=self.patch)(img)
        x = x.reshape(x.shape[0], -1, self.dim)
        pos = self.param("pos", nn.initializers.normal(0.02), (1, x.shape[1], self.dim))
        return x + pos


class Cait(nn.Module):
    dim: int = 64
    heads: int = 4
    depth: int = 2
    classes: int = 10

    @nn.compact
    def __call__(self, img, train: bool = False):
        x = PatchEmbed(self.dim)(img)
        for _ in range(self.depth):
            x = CaitBlock(self.dim, self.heads)(x, train)
        return nn.Dense(self.classes)(nn.LayerNorm()(x).mean(axis=1))
