from typing import NamedTuple, Optional

import jax
import jax.numpy as jnp
from jax import Array


class Config(NamedTuple):
    embed_dim: int = 32
    num_heads: int = 4
    num_kv_heads: int = 2
    head_dim: int = 8
    soft_cap: Optional[float] = 50.0
    sliding_window: Optional[int] = None
    rope_base: int = 10_000


class Weights(NamedTuple):
    q: Array   # N D H
    kv: Array  # 2 K D H
    o: Array   # N H D


K_MASK = -2.3819763e38


def init_weights(rng, c: Config) -> Weights:
    r = jax.random.split(rng, 3)
    f = jax.nn.initializers.variance_scaling(1.0, "fan_in", "normal", in_axis=-2, out_axis=-1)
    return Weights(
        f(r[0], (c.num_heads, c.embed_dim, c.head_dim)),
        f(r[1], (2, c.num_kv_heads, c.embed_dim, c.head_dim)),
        f(r[2], (c.num_heads, c.head_dim, c.embed_dim)),
    )


def apply_rope(x, positions, base):
    """x: B L N H; positions: B L"""
    h = x.shape[-1]
    timescale = base ** (2 * jnp.arange(h // 2) / h)
    s = (positions[..., None] / timescale)[..., None, :]
    sin, cos = jnp.sin(s), jnp.cos(s)
    first, second = jnp.split(x, 2, axis=-1)
    return jnp.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1).astype(x.dtype)


def make_causal_mask(not_pad, window=None):
    """not_pad: B L bool -> B L L bool, True where the query may look."""
    n = not_pad.shape[-1]
    delta = jnp.arange(n)[:, None] - jnp.arange(n)[None, :]
    ok = delta >= 0
    if window is not None:
        ok &= delta < window
    return ok[None] & not_pad[:, None, :]


def attend(w: Weights, x, not_pad, c: Config = Config()):
    positions = jnp.maximum(jnp.cumsum(not_pad, axis=-1) - 1, 0)
    q = jnp.einsum("BTD,NDH->BTNH", x, w.q)
    k, v = jnp.einsum("BSD,CKDH->CBSKH", x, w.kv)
    q = apply_rope(q, positions, c.rope_base) * c.head_dim ** -0.5
    k = apply_rope(k, positions, c.rope_base)

    b, t = q.shape[:2]
    q = q.reshape(b, t, c.num_kv_heads, c.num_heads // c.num_kv_heads, c.head_dim)
    logits = jnp.einsum("BTKGH,BSKH->BTKGS", q, k)
    if c.soft_cap is not None:
        logits = c.soft_cap * jnp.tanh(logits / c.soft_cap)
    mask = make_causal_mask(not_pad, c.sliding_window)
    logits = jnp.where(mask[:, :, None, None, :], logits, K_MASK)
    probs = jax.nn.softmax(logits, axis=-1).astype(k.dtype)
    encoded = jnp.einsum("BTKGS,BSKH->BTKGH", probs, v).reshape(b, t, c.num_heads, c.head_dim)
    return jnp.einsum("BTNH,NHD->BTD", encoded, w.o)


if __name__ == "__main__":
    c = Config(sliding_window=4)
    w = init_weights(jax.random.key(0), c)
    x = jax.random.normal(jax.random.key(1), (2, 9, c.embed_dim))
    not_pad = jnp.arange(9)[None] < jnp.array([[9], [6]])
    print(jax.jit(attend, static_argnames="c")(w, x, not_pad, c=c)[1, :6].mean())
