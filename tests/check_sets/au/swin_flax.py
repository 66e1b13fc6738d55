"""Swin block in flax.linen: windows, shifted windows and the relative position table."""
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np


def cut(x, w):
    """[B, H, W, C] -> [B * nW, w * w, C]"""
    B, H, W, C = x.shape
    x = x.reshape(B, H // w, w, W // w, w, C).transpose(0, 1, 3, 2, 4, 5)
    return x.reshape(-1, w * w, C)


def glue(t, w, H, W):
    C = t.shape[-1]
    x = t.reshape(-1, H // w, W // w, w, w, C).transpose(0, 1, 3, 2, 4, 5)
    return x.reshape(-1, H, W, C)


def relative_index(w):
    c = np.stack(np.meshgrid(np.arange(w), np.arange(w), indexing="ij")).reshape(2, -1)
    r = (c[:, :, None] - c[:, None, :]) + w - 1
    return r[0] * (2 * w - 1) + r[1]


def region_mask(H, W, w, s):
    """True where two tokens of a rolled window come from the same region: [nW, w*w, w*w]."""
    ids = np.zeros((1, H, W, 1), np.int32)
    n = 0
    for a in (slice(0, -w), slice(-w, -s), slice(-s, None)):
        for b in (slice(0, -w), slice(-w, -s), slice(-s, None)):
            ids[:, a, b] = n
            n += 1
    g = np.asarray(cut(ids, w))[..., 0]
    return g[:, :, None] == g[:, None, :]


class WindowAttention(nn.Module):
    dim: int
    heads: int
    window: int
    dtype: Any = jnp.float32

    @nn.compact
    def __call__(self, x, same_region=None):
        """x [B * nW, T, dim]; same_region bool [nW, T, T], True = may attend."""
        N, T, C = x.shape
        hd = self.dim // self.heads
        qkv = nn.Dense(3 * self.dim, dtype=self.dtype, name="qkv")(x)
        q, k, v = jnp.moveaxis(qkv.reshape(N, T, 3, self.heads, hd), 2, 0)
        a = jnp.einsum("nihd,njhd->nhij", q * hd ** -0.5, k).astype(jnp.float32)
        table = self.param("rel", nn.initializers.truncated_normal(0.02),
                           ((2 * self.window - 1) ** 2, self.heads))
        a = a + table[relative_index(self.window)].transpose(2, 0, 1)[None]
        if same_region is not None:
            nW = same_region.shape[0]
            a = a.reshape(N // nW, nW, self.heads, T, T)
            a = jnp.where(same_region[None, :, None], a, -jnp.inf).reshape(N, self.heads, T, T)
        p = jax.nn.softmax(a, axis=-1).astype(self.dtype)
        y = jnp.einsum("nhij,njhd->nihd", p, v).reshape(N, T, C)
        return nn.Dense(self.dim, dtype=self.dtype, name="proj")(y)


class SwinBlock(nn.Module):
    dim: int
    heads: int
    window: int = 4
    shift: int = 0

    @nn.compact
    def __call__(self, x):
        B, H, W, C = x.shape
        h = nn.LayerNorm()(x)
        m = None
        if self.shift:
            h = jnp.roll(h, (-self.shift, -self.shift), (1, 2))
            m = jnp.asarray(region_mask(H, W, self.window, self.shift))
        h = WindowAttention(self.dim, self.heads, self.window)(cut(h, self.window), m)
        h = glue(h, self.window, H, W)
        if self.shift:
            h = jnp.roll(h, (self.shift, self.shift), (1, 2))
        x = x + h
        f = nn.Dense(4 * C)(nn.LayerNorm()(x))
        return x + nn.Dense(C)(nn.gelu(f))
