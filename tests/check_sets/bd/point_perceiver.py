"""LiDAR classifier: Perceiver encoder in Flax (linen)."""
from typing import Any, Optional

import flax.linen as nn
import jax
import jax.numpy as jnp


def fourier_features(xyz, bands=4):
    """[..., 3] -> [..., 3 * (2 * bands + 1)]"""
    f = 2.0 ** jnp.arange(bands) * jnp.pi
    a = xyz[..., None] * f
    enc = jnp.concatenate([jnp.sin(a), jnp.cos(a), xyz[..., None]], axis=-1)
    return enc.reshape(*xyz.shape[:-1], -1)


class CrossAttention(nn.Module):
    """Queries from `latents`, keys and values from `data`, which may have another width.

    valid: bool [B, N], True where the point is real. A cloud without any real
    point contributes nothing (the update is zero before the output bias).
    """
    heads: int
    head_dim: int
    dtype: Any = jnp.float32

    @nn.compact
    def __call__(self, latents, data, valid: Optional[jax.Array] = None):
        out_dim = latents.shape[-1]
        ql = nn.LayerNorm(name="norm_q")(latents)
        kv = nn.LayerNorm(name="norm_kv")(data)
        proj = lambda n: nn.DenseGeneral((self.heads, self.head_dim), use_bias=False, dtype=self.dtype, name=n)
        q, k, v = proj("q")(ql), proj("k")(kv), proj("v")(kv)
        s = jnp.einsum("blhd,bnhd->bhln", q, k).astype(jnp.float32) / jnp.sqrt(self.head_dim)
        if valid is not None:
            keep = valid[:, None, None, :]
            s = jnp.where(keep, s, jnp.finfo(jnp.float32).min)
            w = jnp.where(keep, nn.softmax(s, axis=-1), 0.0)
        else:
            w = nn.softmax(s, axis=-1)
        y = jnp.einsum("bhln,bnhd->blhd", w.astype(self.dtype), v)
        return nn.DenseGeneral(out_dim, axis=(-2, -1), name="out")(y)


class LatentBlock(nn.Module):
    heads: int
    head_dim: int

    @nn.compact
    def __call__(self, x):
        x = x + CrossAttention(self.heads, self.head_dim, name="self")(x, x)
        h = nn.LayerNorm()(x)
        h = nn.Dense(2 * x.shape[-1])(h)
        return x + nn.Dense(x.shape[-1])(nn.gelu(h))


class PointPerceiver(nn.Module):
    n_latents: int = 8
    width: int = 32
    heads: int = 2
    depth: int = 2
    classes: int = 10

    @nn.compact
    def __call__(self, xyz, valid=None):
        z = self.param("latents", nn.initializers.normal(0.02), (self.n_latents, self.width))
        z = jnp.broadcast_to(z, (xyz.shape[0],) + z.shape)
        feats = fourier_features(xyz)
        for i in range(self.depth):
            z = z + CrossAttention(self.heads, self.width // self.heads, name=f"cross{i}")(z, feats, valid)
            z = LatentBlock(self.heads, self.width // self.heads, name=f"latent{i}")(z)
        return nn.Dense(self.classes)(z.mean(1))


if __name__ == "__main__":
    net = PointPerceiver()
    x = jax.random.normal(jax.random.PRNGKey(0), (2, 50, 3))
    params = net.init(jax.random.PRNGKey(1), x)
    print(net.apply(params, x).shape)
