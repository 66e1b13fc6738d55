"""Transcribing overtone (throat) singing: Conformer encoder block in Flax linen.

Relative positional self-attention as in Transformer-XL: content term with bias u,
position term with bias v, shifted so that column j of row i belongs to distance i - j.
"""
from typing import Optional

import flax.linen as nn
import jax
import jax.numpy as jnp


def sinusoid(length: int, dim: int) -> jnp.ndarray:
    """Rows are the distances length-1, ..., 0, ..., -(length-1)."""
    dist = jnp.arange(length - 1, -length, -1.0)
    inv = jnp.exp(-jnp.log(10000.0) * jnp.arange(0, dim, 2) / dim)
    ang = dist[:, None] * inv[None]
    return jnp.stack([jnp.sin(ang), jnp.cos(ang)], -1).reshape(2 * length - 1, dim)


def rel_shift(x: jnp.ndarray) -> jnp.ndarray:
    """[B, H, T, 2T-1] -> [B, H, T, T]."""
    b, h, t, n = x.shape
    x = jnp.pad(x, ((0, 0), (0, 0), (0, 0), (1, 0)))
    x = x.reshape(b, h, n + 1, t)[:, :, 1:].reshape(b, h, t, n)
    return x[..., :t]


class RelPosAttention(nn.Module):
    """x: [B, T, dim]; frames: [B] number of real frames or None."""

    dim: int
    heads: int

    @nn.compact
    def __call__(self, x, frames: Optional[jnp.ndarray] = None):
        B, T, _ = x.shape
        d = self.dim // self.heads
        proj = lambda name, bias=True: nn.DenseGeneral((self.heads, d), use_bias=bias, name=name)
        q, k, v = proj("q")(x), proj("k")(x), proj("v")(x)
        r = proj("r", False)(sinusoid(T, self.dim))
        u = self.param("u", nn.initializers.normal(0.5), (self.heads, d))
        w = self.param("w", nn.initializers.normal(0.5), (self.heads, d))

        content = jnp.einsum("bihd,bjhd->bhij", q + u, k)
        place = rel_shift(jnp.einsum("bihd,nhd->bhin", q + w, r))
        s = (content + place) / jnp.sqrt(d)
        if frames is not None:
            real = jnp.arange(T)[None] < frames[:, None]
            s = jnp.where(real[:, None, None, :], s, jnp.finfo(s.dtype).min)
        a = jax.nn.softmax(s, axis=-1)
        y = jnp.einsum("bhij,bjhd->bihd", a, v)
        return nn.DenseGeneral(self.dim, axis=(-2, -1), name="o")(y)


class ConvModule(nn.Module):
    dim: int
    kernel: int = 7

    @nn.compact
    def __call__(self, x):
        h = nn.LayerNorm()(x)
        h = nn.glu(nn.Dense(2 * self.dim)(h), axis=-1)
        h = nn.Conv(self.dim, (self.kernel,), feature_group_count=self.dim, padding="SAME")(h)
        return nn.Dense(self.dim)(nn.swish(nn.LayerNorm()(h)))


class ConformerBlock(nn.Module):
    dim: int = 32
    heads: int = 4

    @nn.compact
    def __call__(self, x, frames=None):
        x = x + 0.5 * nn.Dense(self.dim)(nn.swish(nn.Dense(4 * self.dim)(nn.LayerNorm()(x))))
        x = x + RelPosAttention(self.dim, self.heads)(nn.LayerNorm()(x), frames)
        x = x + ConvModule(self.dim)(x)
        x = x + 0.5 * nn.Dense(self.dim)(nn.swish(nn.Dense(4 * self.dim)(nn.LayerNorm()(x))))
        return nn.LayerNorm()(x)


if __name__ == "__main__":
    net = ConformerBlock()
    xs = jnp.ones((2, 9, 32))
    var = net.init(jax.random.PRNGKey(0), xs)
    print(net.apply(var, xs, jnp.array([9, 5])).shape)
