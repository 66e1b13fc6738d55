"""Live commentary of sled-dog races: decode step of a Gemma-like model in plain JAX.

Per layer: logits are soft-capped with cap * tanh(x / cap); slots of the cache beyond
the current length are not attended.  Parameters are a nested dict (pytree).
"""
from typing import Dict, NamedTuple

import jax
import jax.numpy as jnp

BIG_NEG = -2.3819763e38


class LayerCache(NamedTuple):
    k: jnp.ndarray      # [B, S, G, D]
    v: jnp.ndarray      # [B, S, G, D]
    end: jnp.ndarray    # [B] int32, filled slots


def empty_cache(batch, size, groups, dim):
    z = jnp.zeros((batch, size, groups, dim))
    return LayerCache(z, z, jnp.zeros(batch, jnp.int32))


def put(cache: LayerCache, k, v) -> LayerCache:
    """Writes one token per row at its own end position."""
    rows = jnp.arange(k.shape[0])
    return LayerCache(cache.k.at[rows, cache.end].set(k), cache.v.at[rows, cache.end].set(v), cache.end + 1)


def rms_norm(x, scale):
    var = jnp.mean(jnp.square(x.astype(jnp.float32)), -1, keepdims=True)
    return (x * jax.lax.rsqrt(var + 1e-6)).astype(x.dtype) * (1 + scale)


def capped_decode(q, cache: LayerCache, cap: float = 50.0):
    """q: [B, H, D]; query head h reads group h // (H // G).  Returns [B, H, D]."""
    B, H, D = q.shape
    S, G = cache.k.shape[1:3]
    q = q.reshape(B, G, H // G, D) * D ** -0.5
    logits = jnp.einsum("bgrd,bsgd->bgrs", q, cache.k).astype(jnp.float32)
    filled = jnp.arange(S)[None, :] < cache.end[:, None]
    logits = jnp.where(filled[:, None, None, :], logits, BIG_NEG)
    logits = cap * jnp.tanh(logits / cap)
    probs = jax.nn.softmax(logits, axis=-1).astype(q.dtype)
    return jnp.einsum("bgrs,bsgd->bgrd", probs, cache.v).reshape(B, H, D)


def layer_step(params: Dict, x, cache: LayerCache, cap: float):
    h = rms_norm(x, params["norm"])
    q = jnp.einsum("bw,whd->bhd", h, params["q"])
    k = jnp.einsum("bw,wgd->bgd", h, params["k"])
    v = jnp.einsum("bw,wgd->bgd", h, params["v"])
    cache = put(cache, k, v)
    y = capped_decode(q, cache, cap)
    x = x + jnp.einsum("bhd,hdw->bw", y, params["o"])
    g = jax.nn.gelu(x @ params["gate"]) * (x @ params["up"])
    return x + g @ params["down"], cache


def init_layer(key, width=32, heads=4, groups=2, hidden=64):
    d = width // heads
    shapes = dict(q=(width, heads, d), k=(width, groups, d), v=(width, groups, d), o=(heads, d, width),
                  gate=(width, hidden), up=(width, hidden), down=(hidden, width))
    ks = jax.random.split(key, len(shapes))
    p = {n: jax.random.normal(k, s) * s[0] ** -0.5 for k, (n, s) in zip(ks, shapes.items())}
    p["norm"] = jnp.zeros(width)
    return p


if __name__ == "__main__":
    prm, c = init_layer(jax.random.PRNGKey(0)), empty_cache(2, 16, 2, 8)
    for t in range(3):
        y, c = layer_step(prm, jax.random.normal(jax.random.PRNGKey(t), (2, 32)), c, 5.0)
    print(y.shape, c.end)
