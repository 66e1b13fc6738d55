"""Long seismogram encoder: attention with keys read block after block (JAX).

Station traces have 10^5 samples, so the score matrix must never exist as a whole. Each
block updates a running maximum, a running normaliser and a running weighted sum.
"""
from dataclasses import dataclass

import jax
import jax.numpy as jnp


@dataclass(frozen=True)
class SeisConfig:
    channels: int = 3
    width: int = 32
    heads: int = 4
    block: int = 8
    stride: int = 4


def glorot(key, *shape):
    return jax.random.normal(key, shape) * jnp.sqrt(2.0 / (shape[0] + shape[-1]))


def init(key, cfg: SeisConfig):
    ks = jax.random.split(key, 5)
    w = cfg.width
    return {
        "stem": glorot(ks[0], cfg.channels * cfg.stride, w),
        "q": glorot(ks[1], w, w), "k": glorot(ks[2], w, w),
        "v": glorot(ks[3], w, w), "o": glorot(ks[4], w, w),
    }


def blockwise_attention(q, k, v, block):
    """softmax(q k^T / sqrt(D)) v for q, k, v [H, T, D], any block size >= 1."""
    T, D = k.shape[1], k.shape[2]
    q = q / jnp.sqrt(D)

    s = jnp.einsum("hid,hjd->hij", q, k[:, :block])
    m = s.max(axis=-1, keepdims=True)
    e = jnp.exp(s - m)
    total = e.sum(axis=-1, keepdims=True)
    acc = jnp.einsum("hij,hjd->hid", e, v[:, :block])

    for a in range(block, T, block):
        kb, vb = k[:, a:a + block], v[:, a:a + block]
        s = jnp.einsum("hid,hjd->hij", q, kb)
        m_new = jnp.maximum(m, s.max(axis=-1, keepdims=True))
        e = jnp.exp(s - m_new)
        shrink = jnp.exp(m_new - m)
        total = total * shrink + e.sum(axis=-1, keepdims=True)
        acc = acc * shrink + jnp.einsum("hij,hjd->hid", e, vb)
        m = m_new
    return acc / total


def encode(params, trace, cfg: SeisConfig):
    """trace [samples, channels], samples a multiple of the stride -> [samples / stride, width]"""
    x = trace.reshape(-1, cfg.stride * cfg.channels) @ params["stem"]
    x = jnp.tanh(x)
    heads = lambda y: y.reshape(len(y), cfg.heads, -1).transpose(1, 0, 2)
    q, k, v = (heads(x @ params[n]) for n in "qkv")
    y = blockwise_attention(q, k, v, cfg.block)
    return x + y.transpose(1, 0, 2).reshape(x.shape) @ params["o"]


def pick_p_wave(params, trace, cfg):
    """Index (in samples) of the strongest change of the encoding."""
    z = encode(params, trace, cfg)
    jump = jnp.linalg.norm(z[1:] - z[:-1], axis=-1)
    return int(jump.argmax() + 1) * cfg.stride


if __name__ == "__main__":
    c = SeisConfig()
    p = init(jax.random.PRNGKey(0), c)
    print(pick_p_wave(p, jax.random.normal(jax.random.PRNGKey(1), (160, 3)), c))
