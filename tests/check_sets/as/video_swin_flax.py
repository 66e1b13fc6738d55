"""Video Swin Transformer, window attention with 3D relative position bias (Flax).

Every offset (dt, dh, dw) between two tokens of a window has its own row in the
bias table, (2Wt-1)(2Wh-1)(2Ww-1) rows in all, one column for each head.
"""
from typing import Sequence, Tuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np


def relative_position_index(window: Tuple[int, int, int]) -> np.ndarray:
    """[N, N] rows of the bias table, N = Wt * Wh * Ww, tokens in (t, h, w) order."""
    wt, wh, ww = window
    grid = np.stack(np.meshgrid(np.arange(wt), np.arange(wh), np.arange(ww), indexing="ij"))
    flat = grid.reshape(3, -1)
    rel = (flat[:, :, None] - flat[:, None, :]).transpose(1, 2, 0).copy()
    rel[..., 0] += wt - 1
    rel[..., 1] += wh - 1
    rel[..., 2] += ww - 1
    rel[..., 0] *= 2 * wh - 1
    rel[..., 1] *= 2 * ww - 1
    return rel.sum(-1)


def window_partition(x, window):
    """[B, T, H, W, C] -> [B * windows, Wt * Wh * Ww, C]"""
    b, t, h, w, c = x.shape
    a, p, q = window
    x = x.reshape(b, t // a, a, h // p, p, w // q, q, c)
    return x.transpose(0, 1, 3, 5, 2, 4, 6, 7).reshape(-1, a * p * q, c)


def window_reverse(x, window, shape):
    b, t, h, w, c = shape
    a, p, q = window
    x = x.reshape(b, t // a, h // p, w // q, a, p, q, c)
    return x.transpose(0, 1, 4, 2, 5, 3, 6, 7).reshape(shape)


class WindowAttention3D(nn.Module):
    dim: int
    window: Sequence[int]
    num_heads: int
    qkv_bias: bool = True

    @nn.compact
    def __call__(self, x):
        """x [windows, N, C]"""
        bw, n, c = x.shape
        hd = c // self.num_heads
        wt, wh, ww = self.window
        table = self.param(
            "relative_position_bias_table",
            nn.initializers.truncated_normal(0.02),
            ((2 * wt - 1) * (2 * wh - 1) * (2 * ww - 1), self.num_heads),
        )
        qkv = nn.Dense(3 * c, use_bias=self.qkv_bias, name="qkv")(x)
        q, k, v = jnp.moveaxis(qkv.reshape(bw, n, 3, self.num_heads, hd), 2, 0)
        attn = jnp.einsum("wqhd,wkhd->whqk", q * hd**-0.5, k)
        index = relative_position_index(tuple(self.window))
        bias = table[index.reshape(-1)].reshape(n, n, self.num_heads)
        attn = attn + bias.transpose(2, 0, 1)[None]
        attn = jax.nn.softmax(attn, axis=-1)
        out = jnp.einsum("whqk,wkhd->wqhd", attn, v).reshape(bw, n, c)
        return nn.Dense(c, name="proj")(out)


class SwinBlock3D(nn.Module):
    dim: int
    window: Sequence[int]
    num_heads: int
    mlp_ratio: float = 4.0

    @nn.compact
    def __call__(self, x):
        w = tuple(self.window)
        h = window_partition(nn.LayerNorm()(x), w)
        h = WindowAttention3D(self.dim, w, self.num_heads, name="attn")(h)
        x = x + window_reverse(h, w, x.shape)
        y = nn.Dense(int(self.dim * self.mlp_ratio))(nn.LayerNorm()(x))
        return x + nn.Dense(self.dim)(nn.gelu(y))
