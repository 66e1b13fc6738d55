"""vowel_chart: marks a learner's vowels on the IPA trapezium, frame by frame.

ALiBi as in Press et al.: for n heads (a power of two) the slopes are the geometric
sequence that starts at 2^(-8/n) with the same value as ratio, i.e. 1/4, 1/16, 1/64,
1/256 for four heads.  Causal, the app draws while the learner is speaking.
"""
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

CORNERS = {"i": (0.0, 1.0), "u": (1.0, 1.0), "a": (0.35, 0.0), "ɑ": (1.0, 0.0)}


def slopes(n: int) -> np.ndarray:
    assert n & (n - 1) == 0, "power of two, please"
    return np.array([2.0 ** (-8.0 * h / n) for h in range(n)])


def alibi(n: int, length: int, dtype: Any) -> jax.Array:
    i = jnp.arange(length)
    back = (i[:, None] - i[None, :]).astype(dtype)
    return -jnp.asarray(slopes(n), dtype)[:, None, None] * back


class VowelAttention(nn.Module):
    """[B, T, C] -> [B, T, C]"""
    heads: int = 4
    width: int = 16

    def setup(self):
        self.qkv = nn.Dense(3 * self.width, use_bias=False)
        self.out = nn.Dense(self.width, use_bias=False)

    def __call__(self, x):
        B, T, _ = x.shape
        d = self.width // self.heads
        q, k, v = jnp.split(self.qkv(x), 3, axis=-1)
        q, k, v = (t.reshape(B, T, self.heads, d).transpose(0, 2, 1, 3) for t in (q, k, v))
        logits = jnp.matmul(q, k.swapaxes(-1, -2)) / np.sqrt(d)
        logits = logits + alibi(self.heads, T, logits.dtype)
        logits = jnp.where(jnp.tril(jnp.ones((T, T), bool)), logits, jnp.finfo(logits.dtype).min)
        y = jnp.matmul(nn.softmax(logits, axis=-1), v)
        return self.out(y.transpose(0, 2, 1, 3).reshape(B, T, self.width))


class Trapezium(nn.Module):
    width: int = 16

    @nn.compact
    def __call__(self, mfcc):
        h = nn.Dense(self.width)(mfcc)
        h = h + VowelAttention(width=self.width)(nn.LayerNorm()(h))
        return nn.sigmoid(nn.Dense(2)(h))


def nearest_corner(xy):
    names = list(CORNERS)
    c = np.array([CORNERS[n] for n in names])
    return [names[int(((c - p) ** 2).sum(1).argmin())] for p in np.asarray(xy)]


if __name__ == "__main__":
    m = jax.random.normal(jax.random.key(0), (1, 6, 13))
    net = Trapezium()
    print(nearest_corner(net.apply(net.init(jax.random.key(1), m), m)[0]))
