import jax
import jax.numpy as jnp
from flax import linen as nn


class FrameAttention(nn.Module):
    dim: int
    heads: int

    @nn.compact
    def __call__(self, x):
        b, n, _ = x.shape
        d = self.dim // self.heads
        qkv = nn.Dense(3 * self.dim, use_bias=False)(x)
        q, k, v = jnp.split(qkv, 3, axis=-1)
        q = q.reshape(b, self.heads, n, d) / jnp.sqrt(d)
        k = k.reshape(b, self.heads, n, d)
        v = v.reshape(b, self.heads, n, d)
        w = nn.softmax(q @ jnp.swapaxes(k, -1, -2), axis=-1)
        y = jnp.transpose(w @ v, (0, 2, 1, 3)).reshape(b, n, self.dim)
        return nn.Dense(self.dim)(y)


class SpectroMixer(nn.Module):
    """Mel frames (B, T, n_mels) -> utterance embedding (B, dim)"""
    dim: int = 32
    heads: int = 4
    depth: int = 2

    @nn.compact
    def __call__(self, mel):
        x = nn.Dense(self.dim)(mel)
        for _ in range(self.depth):
            x = x + FrameAttention(self.dim, self.heads)(nn.LayerNorm()(x))
            h = nn.Dense(self.dim * 2)(nn.LayerNorm()(x))
            x = x + nn.Dense(self.dim)(jax.nn.swish(h))
        return x.mean(axis=1)
