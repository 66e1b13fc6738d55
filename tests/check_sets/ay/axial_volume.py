"""Axial attention blocks for CT / MR volumes (Flax).

Feature volumes are channels-last: [batch, depth, height, width, channels].
A full block attends along depth, then height, then width.
"""
from typing import Any, Sequence

import flax.linen as nn
import jax
import jax.numpy as jnp


class ConvNormAct(nn.Module):
    features: int
    stride: int = 1

    @nn.compact
    def __call__(self, x):
        x = nn.Conv(self.features, (3, 3, 3), strides=(self.stride,) * 3, use_bias=False)(x)
        x = nn.GroupNorm(num_groups=min(8, self.features))(x)
        return nn.leaky_relu(x, 0.01)


class AxialAttention(nn.Module):
    """Multi-head self-attention along one spatial axis.

    Every line of voxels along ``axis`` is a sequence of its own. A learned bias
    per head and relative offset (key minus query) is added to the logits.
    ``valid`` [batch, depth, height, width] is True inside the scanned region;
    voxels outside are never attended to, a line without any valid voxel gives 0.
    """
    num_heads: int
    axis: int                      # 1 depth, 2 height, 3 width
    max_extent: int = 64
    dtype: Any = jnp.float32

    @nn.compact
    def __call__(self, x, valid=None):
        c = x.shape[-1]
        d = c // self.num_heads
        proj = lambda name: nn.DenseGeneral((self.num_heads, d), use_bias=False, dtype=self.dtype, name=name)
        lines = jnp.moveaxis(x, self.axis, -2)                    # [b, r, s, n, c]
        n = lines.shape[-2]
        q, k, v = proj("q")(lines), proj("k")(lines), proj("v")(lines)

        logits = jnp.einsum("brsihd,brsjhd->brshij", q, k) / jnp.sqrt(d).astype(q.dtype)
        table = self.param("offset_bias", nn.initializers.normal(0.02),
                           (self.num_heads, 2 * self.max_extent - 1))
        offset = jnp.arange(n)[None, :] - jnp.arange(n)[:, None]
        logits = logits.astype(jnp.float32) + table[:, offset + self.max_extent - 1]

        if valid is not None:
            keep = jnp.moveaxis(valid, self.axis, -1)[:, :, :, None, None, :]
            logits = jnp.where(keep, logits, jnp.finfo(jnp.float32).min)
            weights = jax.nn.softmax(logits, axis=-1) * keep.any(-1, keepdims=True)
        else:
            weights = jax.nn.softmax(logits, axis=-1)

        out = jnp.einsum("brshij,brsjhd->brsihd", weights.astype(v.dtype), v)
        out = nn.DenseGeneral(c, axis=(-2, -1), use_bias=False, dtype=self.dtype, name="o")(out)
        return jnp.moveaxis(out, -2, self.axis)


class AxialBlock(nn.Module):
    num_heads: int
    mlp_ratio: int = 2

    @nn.compact
    def __call__(self, x, valid=None):
        for axis, tag in ((1, "depth"), (2, "height"), (3, "width")):
            y = nn.LayerNorm(name=f"norm_{tag}")(x)
            x = x + AxialAttention(self.num_heads, axis, name=f"attn_{tag}")(y, valid)
        y = nn.LayerNorm(name="norm_mlp")(x)
        y = nn.Dense(self.mlp_ratio * x.shape[-1])(y)
        return x + nn.Dense(x.shape[-1])(nn.gelu(y))


class OrganSegmenter(nn.Module):
    """Small encoder / decoder with axial blocks at the coarsest level."""
    classes: int
    widths: Sequence[int] = (16, 32, 64)
    num_heads: int = 4
    blocks: int = 2

    @nn.compact
    def __call__(self, volume, valid=None):
        skips = []
        x = volume
        for i, w in enumerate(self.widths):
            x = ConvNormAct(w, stride=1 if i == 0 else 2)(x)
            x = ConvNormAct(w)(x)
            skips.append(x)
        small = None
        if valid is not None:
            step = 2 ** (len(self.widths) - 1)
            small = valid[:, ::step, ::step, ::step]
        for _ in range(self.blocks):
            x = AxialBlock(self.num_heads)(x, small)
        for w, skip in zip(self.widths[-2::-1], skips[-2::-1]):
            x = jax.image.resize(x, skip.shape[:-1] + (x.shape[-1],), "trilinear")
            x = ConvNormAct(w)(jnp.concatenate([x, skip], axis=-1))
        return nn.Conv(self.classes, (1, 1, 1))(x)


def soft_dice(logits, labels, eps=1e-5):
    p = jax.nn.softmax(logits)
    y = jax.nn.one_hot(labels, logits.shape[-1])
    inter = (p * y).sum((1, 2, 3))
    return 1 - ((2 * inter + eps) / (p.sum((1, 2, 3)) + y.sum((1, 2, 3)) + eps)).mean()
