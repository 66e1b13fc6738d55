"""Chromatin accessibility from raw sequence: attention trunk with linear biases.

The released weights (12 heads per layer) were trained with the ALiBi slopes of
Press et al. 2022; this JAX module is meant to reproduce their forward pass.
Bidirectional: the penalty grows with |i - j| on both sides.
"""
import math

import jax
import jax.numpy as jnp
import numpy as np

BASES = {"A": 0, "C": 1, "G": 2, "T": 3}


def one_hot(seq: str) -> np.ndarray:
    out = np.full((len(seq), 4), 0.25, np.float32)     # N -> uniform
    for i, s in enumerate(seq):
        if s in BASES:
            out[i] = 0.0
            out[i, BASES[s]] = 1.0
    return out


def head_slopes(n_heads: int) -> jnp.ndarray:
    """ALiBi slopes as in the paper's reference code, one per head."""
    start = 2.0 ** (-8.0 / n_heads)
    return jnp.asarray([start ** (h + 1) for h in range(n_heads)])


def distance_bias(n_heads: int, length: int) -> jnp.ndarray:
    pos = jnp.arange(length)
    dist = jnp.abs(pos[:, None] - pos[None, :]).astype(jnp.float32)
    return -head_slopes(n_heads)[:, None, None] * dist


def biased_attention(q, k, v, keep=None):
    """q, k, v: (B, L, H, D), any number of heads; keep: (B, L) bool, True = real base."""
    _, length, heads, dim = q.shape
    logits = jnp.einsum("bqhd,bkhd->bhqk", q, k) / math.sqrt(dim)
    logits = logits + distance_bias(heads, length)
    if keep is not None:
        logits = jnp.where(keep[:, None, None, :], logits, jnp.finfo(logits.dtype).min)
    probs = jax.nn.softmax(logits, axis=-1)
    return jnp.einsum("bhqk,bkhd->bqhd", probs, v)


def init_layer(key, width, heads):
    ks = jax.random.split(key, 4)
    s = width ** -0.5
    return {n: jax.random.normal(k, (width, width)) * s for n, k in zip("qkvo", ks)} | {
        "gain": jnp.ones(width), "heads": heads}


def layer(p, x, keep=None):
    b, l, w = x.shape
    h = x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * p["gain"]
    q, k, v = ((h @ p[n]).reshape(b, l, p["heads"], -1) for n in "qkv")
    return x + biased_attention(q, k, v, keep).reshape(b, l, w) @ p["o"]


def pool_bins(x, bin_size=8):
    """Mean over bins of `bin_size` bases; the tail is dropped."""
    b, l, w = x.shape
    n = l // bin_size
    return x[:, : n * bin_size].reshape(b, n, bin_size, w).mean(2)


def main():
    key = jax.random.PRNGKey(0)
    stem = jax.random.normal(key, (4, 48)) * 0.5
    x = jnp.asarray(one_hot("ACGTNNACGTTTACGGATATCGAT"))[None] @ stem
    for i in range(2):
        x = layer(init_layer(jax.random.fold_in(key, i), 48, 12), x)
    print(pool_bins(x).shape)


if __name__ == "__main__":
    main()
