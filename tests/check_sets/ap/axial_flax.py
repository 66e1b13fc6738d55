"""Axial attention for images, Flax linen.  Images are [B, H, W, C] throughout."""
from typing import Optional

import flax.linen as nn
import jax.numpy as jnp


class AxisAttention(nn.Module):
    """Attention along one spatial axis (1 = columns of pixels, 2 = rows of pixels).

    ``valid`` [B, H, W] bool: True where there is a picture.  Pixels in a line without any
    valid pixel come out as zeros (before the output projection).
    """
    heads: int
    axis: int
    dropout: float = 0.0

    @nn.compact
    def __call__(self, x, valid: Optional[jnp.ndarray] = None, train: bool = False):
        C = x.shape[-1]
        d = C // self.heads
        other = 1 if self.axis == 2 else 2
        y = jnp.moveaxis(x, other, 1)                 # [B, other, line, C]
        q = nn.DenseGeneral((self.heads, d), name="query", use_bias=False)(y)
        k = nn.DenseGeneral((self.heads, d), name="key", use_bias=False)(y)
        v = nn.DenseGeneral((self.heads, d), name="value", use_bias=False)(y)
        n = y.shape[2]
        table = self.param("rel", nn.initializers.normal(0.02), (2 * n - 1, self.heads))
        offs = jnp.arange(n)[None, :] - jnp.arange(n)[:, None] + n - 1
        s = jnp.einsum("boqhd,bokhd->bohqk", q, k) / jnp.sqrt(d)
        s = s + jnp.transpose(table[offs], (2, 0, 1))
        if valid is not None:
            m = jnp.moveaxis(valid, other, 1)[:, :, None, None, :]
            s = jnp.where(m, s, jnp.finfo(s.dtype).min)
        a = nn.softmax(s, axis=-1)
        if valid is not None:
            a = jnp.where(m, a, 0.0)
        a = nn.Dropout(self.dropout, deterministic=not train)(a)
        o = jnp.einsum("bohqk,bokhd->boqhd", a, v)
        o = nn.DenseGeneral(C, axis=(-2, -1), name="out")(o)
        return jnp.moveaxis(o, 1, other)


class AxialBlock(nn.Module):
    heads: int
    hidden: int = 128
    dropout: float = 0.0

    @nn.compact
    def __call__(self, x, valid=None, train=False):
        h = nn.LayerNorm(name="ln_h")(x)
        x = x + AxisAttention(self.heads, 1, self.dropout, name="height")(h, valid, train)
        h = nn.LayerNorm(name="ln_w")(x)
        x = x + AxisAttention(self.heads, 2, self.dropout, name="width")(h, valid, train)
        h = nn.LayerNorm(name="ln_mlp")(x)
        h = nn.gelu(nn.Dense(self.hidden)(h))
        return x + nn.Dense(x.shape[-1])(h)


class AxialNet(nn.Module):
    classes: int
    width: int = 64
    depth: int = 2
    heads: int = 4
    patch: int = 4

    @nn.compact
    def __call__(self, img, train=False):
        p = self.patch
        x = nn.Conv(self.width, (p, p), (p, p), padding="VALID")(img)
        for i in range(self.depth):
            x = AxialBlock(self.heads, name=f"block{i}")(x, train=train)
        return nn.Dense(self.classes)(nn.LayerNorm()(x).mean((1, 2)))
