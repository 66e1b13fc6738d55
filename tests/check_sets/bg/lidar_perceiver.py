"""Lidar object encoder: a few latents read a ragged point cloud (Flax linen)."""
from typing import Any, Optional

import flax.linen as nn
import jax
import jax.numpy as jnp

Dtype = Any


class LatentRead(nn.Module):
    """Cross-attention latents <- points.

    `drop_points`: [B, N] bool, **True = ignore the point** (note: the opposite of
    flax.linen.make_attention_mask).  A cloud without any valid point gives the zero vector
    before the output projection.
    """

    heads: int
    head_dim: int
    dtype: Dtype = jnp.float32

    @nn.compact
    def __call__(self, latents, points, drop_points: Optional[jax.Array] = None):
        feats = (self.heads, self.head_dim)
        q = nn.DenseGeneral(feats, use_bias=False, dtype=self.dtype, name="query")(latents)
        k = nn.DenseGeneral(feats, use_bias=False, dtype=self.dtype, name="key")(points)
        v = nn.DenseGeneral(feats, use_bias=False, dtype=self.dtype, name="value")(points)
        s = jnp.einsum("bqhd,bkhd->bhqk", q, k).astype(jnp.float32)
        s = s / jnp.sqrt(self.head_dim)
        if drop_points is not None:
            keep = ~drop_points[:, None, None, :]
            w = jax.nn.softmax(s, axis=-1, where=keep)
            w = jnp.where(keep, w, 0.0)
            w = jnp.where(keep.any(-1, keepdims=True), w, 0.0)
        else:
            w = jax.nn.softmax(s, axis=-1)
        y = jnp.einsum("bhqk,bkhd->bqhd", w.astype(self.dtype), v)
        return nn.DenseGeneral(latents.shape[-1], axis=(-2, -1), dtype=self.dtype, name="out")(y)


class CloudEncoder(nn.Module):
    n_latents: int = 4
    width: int = 16

    @nn.compact
    def __call__(self, xyz, drop_points=None):
        pts = nn.gelu(nn.Dense(self.width)(xyz))
        lat = self.param("latents", nn.initializers.normal(0.02), (self.n_latents, self.width))
        lat = jnp.broadcast_to(lat, (xyz.shape[0],) + lat.shape)
        lat = lat + LatentRead(2, self.width // 2)(nn.LayerNorm()(lat), pts, drop_points)
        return lat + nn.Dense(self.width)(nn.gelu(nn.Dense(2 * self.width)(nn.LayerNorm()(lat))))


if __name__ == "__main__":
    net = CloudEncoder()
    xyz = jnp.ones((2, 11, 3))
    print(net.apply(net.init(jax.random.PRNGKey(0), xyz), xyz).shape)
