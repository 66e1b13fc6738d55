"""Axial attention block for multispectral scenes (land cover, 10 m tiles).

The scene is [batch, rows, cols, bands].  The block attends along the columns of
each row, then along the rows of each column; between the two there is a residual
sum.  Pixels flagged in ``cloud`` are not looked at.  In a line that is wholly
cloudy the attention adds nothing (zeros), the residual passes on.
"""
from typing import Any

import flax.linen as nn
import jax.numpy as jnp


class LineAttention(nn.Module):
    """Self-attention over the second last axis; any number of leading axes."""

    heads: int
    features: int
    dtype: Any = jnp.float32

    @nn.compact
    def __call__(self, x, clear):
        d = self.features // self.heads
        proj = lambda name: nn.DenseGeneral((self.heads, d), name=name, dtype=self.dtype)
        q, k, v = proj("q")(x), proj("k")(x), proj("v")(x)
        q = q / jnp.sqrt(d).astype(self.dtype)
        logits = jnp.einsum("...ihd,...jhd->...hij", q, k)
        keep = clear[..., None, None, :]
        logits = jnp.where(keep, logits, jnp.finfo(logits.dtype).min)
        top = logits.max(axis=-1, keepdims=True)
        e = jnp.exp(logits - top) * keep
        z = e.sum(axis=-1, keepdims=True)
        p = e / jnp.maximum(z, 1e-30)
        y = jnp.einsum("...hij,...jhd->...ihd", p, v)
        return nn.DenseGeneral(self.features, axis=(-2, -1), use_bias=False, name="o")(y)


class AxialBlock(nn.Module):
    features: int = 16
    heads: int = 4
    mlp_ratio: int = 2

    @nn.compact
    def __call__(self, scene, cloud):
        clear = jnp.logical_not(cloud)
        x = nn.Dense(self.features, name="stem")(scene)

        y = nn.LayerNorm(name="norm_row")(x)
        x = x + LineAttention(self.heads, self.features, name="along_row")(y, clear)

        y = nn.LayerNorm(name="norm_col")(x).swapaxes(1, 2)
        y = LineAttention(self.heads, self.features, name="along_col")(y, clear.swapaxes(1, 2))
        x = x + y.swapaxes(1, 2)

        y = nn.LayerNorm(name="norm_mlp")(x)
        y = nn.Dense(self.mlp_ratio * self.features, name="up")(y)
        return x + nn.Dense(self.features, name="down")(nn.gelu(y))
