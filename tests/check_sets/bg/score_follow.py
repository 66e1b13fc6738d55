"""Score following: align a live performance with the printed sheet (JAX).

Positions are encoded with ALiBi (Press et al.): head n of H (H a power of two) gets the
slope 2^(-8(n+1)/H), n = 0..H-1, and the bias -slope * |i - j|; no position embeddings.
"""
from functools import partial

import jax
import jax.numpy as jnp


def init(key, dim, heads):
    ks = jax.random.split(key, 4)
    std = dim ** -0.5
    p = {n: jax.random.normal(k, (dim, dim)) * std for n, k in zip("qkvo", ks)}
    return p


def head_slopes(heads):
    n = jnp.arange(heads)
    return 2.0 ** (-8.0 * n / heads)


def distance_bias(length, heads):
    pos = jnp.arange(length)
    gap = jnp.abs(pos[:, None] - pos[None, :])
    return -head_slopes(heads)[:, None, None] * gap


@partial(jax.jit, static_argnames="heads")
def onset_attention(p, frames, rest, heads):
    """frames [B, T, D] onset features; rest [B, T] True on silent frames, which nobody
    should read (at least one frame per piece sounds).  Both directions are visible."""
    b, t, d = frames.shape
    hd = d // heads

    def split(x):
        return x.reshape(b, t, heads, hd).swapaxes(1, 2)

    q, k, v = (split(frames @ p[n]) for n in "qkv")
    s = jnp.einsum("bhid,bhjd->bhij", q, k) / jnp.sqrt(hd)
    s = s + distance_bias(t, heads)[None]
    s = jnp.where(rest[:, None, None, :], -jnp.inf, s)
    w = jax.nn.softmax(s, axis=-1)
    y = jnp.einsum("bhij,bhjd->bhid", w, v)
    return y.swapaxes(1, 2).reshape(b, t, d) @ p["o"]


def tempo(onsets, beats):
    """Least-squares tempo in beats per second."""
    x = onsets - onsets.mean()
    return (x * (beats - beats.mean())).sum() / (x * x).sum()


if __name__ == "__main__":
    p = init(jax.random.PRNGKey(0), 16, 4)
    x = jax.random.normal(jax.random.PRNGKey(1), (2, 10, 16))
    print(onset_attention(p, x, jnp.zeros((2, 10), bool), 4).shape)
