"""Spatio-temporal transformer for loop-detector speeds (METR-LA style), flax.

Input  [batch, time, node, feature] -> forecast [batch, horizon, node].
Usual scaled dot-product attention along time and along the nodes in turn.
"""
import jax.numpy as jnp
import jax
import flax.linen as nn


def time_of_day_features(minutes):
    w = 2 * jnp.pi * minutes / 1440.0
    return jnp.stack([jnp.sin(w), jnp.cos(w)], -1)


class AxisAttention(nn.Module):
    """Multi-head self-attention along the second last axis of x."""
    dim: int
    heads: int = 4

    def setup(self):
        self.qkv = nn.Dense(3 * self.dim, use_bias=False)
        self.proj = nn.Dense(self.dim)

    def __call__(self, x, adj=None):
        *lead, n, _ = x.shape
        qkv = self.qkv(x).reshape(*lead, n, 3, self.heads, self.dim // self.heads)
        q, k, v = (jnp.moveaxis(qkv[..., i, :, :], -2, -3) for i in range(3))
        scale = 1.0 / jnp.sqrt(q.shape[-2])
        dots = jnp.einsum("...id,...jd->...ij", q, k) * scale
        if adj is not None:
            # adj[i, j] True: sensor j is upstream or downstream of sensor i (or i itself)
            dots = jnp.where(adj, dots, jnp.finfo(dots.dtype).min)
        w = jax.nn.softmax(dots, axis=-1)
        out = jnp.moveaxis(w @ v, -3, -2).reshape(*lead, n, self.dim)
        return self.proj(out)


class Mlp(nn.Module):
    dim: int

    @nn.compact
    def __call__(self, x):
        return nn.Dense(self.dim)(nn.gelu(nn.Dense(self.dim * 2)(x)))


class STBlock(nn.Module):
    dim: int
    heads: int

    @nn.compact
    def __call__(self, x, adj=None):
        # temporal: bring time next to the features
        t = jnp.swapaxes(x, 1, 2)
        t = t + AxisAttention(self.dim, self.heads, name="temporal")(nn.LayerNorm()(t))
        x = jnp.swapaxes(t, 1, 2)
        x = x + AxisAttention(self.dim, self.heads, name="spatial")(nn.LayerNorm()(x), adj)
        return x + Mlp(self.dim)(nn.LayerNorm()(x))


class STFormer(nn.Module):
    dim: int = 32
    heads: int = 4
    depth: int = 2
    horizon: int = 12

    @nn.compact
    def __call__(self, speed, minutes, adj=None):
        b, t, n = speed.shape
        tod = jnp.broadcast_to(time_of_day_features(minutes)[:, :, None], (b, t, n, 2))
        x = nn.Dense(self.dim)(jnp.concatenate([speed[..., None], tod], -1))
        x = x + self.param("node_emb", nn.initializers.normal(0.1), (n, self.dim))
        for _ in range(self.depth):
            x = STBlock(self.dim, self.heads)(x, adj)
        x = jnp.swapaxes(x, 1, 2).reshape(b, n, -1)
        return jnp.swapaxes(nn.Dense(self.horizon)(x), 1, 2)


def masked_mae(pred, true):
    ok = true > 0
    return jnp.abs(pred - true).sum(where=ok) / jnp.maximum(ok.sum(), 1)
