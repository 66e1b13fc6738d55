"""Transformer policy for in-context RL.  Pure functions + a dict of parameters.

apply(params, x)                      whole episode
apply(params, x, cache)               continues from a cache; both give the same outputs
"""
from typing import NamedTuple

import jax
import jax.numpy as jnp


class Cache(NamedTuple):
    k: jnp.ndarray          # [max_len, H, d]
    v: jnp.ndarray
    index: jnp.ndarray      # number of valid entries


def init(key, width, heads, head_dim):
    kq, kk, kv, ko = jax.random.split(key, 4)
    s = width ** -0.5
    return {
        "q": jax.random.normal(kq, (width, heads, head_dim)) * s,
        "k": jax.random.normal(kk, (width, heads, head_dim)) * s,
        "v": jax.random.normal(kv, (width, heads, head_dim)) * s,
        "o": jax.random.normal(ko, (heads, head_dim, width)) * (heads * head_dim) ** -0.5,
    }


def empty_cache(params, max_len):
    _, h, d = params["k"].shape
    z = jnp.zeros((max_len, h, d), params["k"].dtype)
    return Cache(z, z, jnp.zeros((), jnp.int32))


def rotary(x, positions, base=10000.0):
    """x [T, H, d], halves convention."""
    half = x.shape[-1] // 2
    freq = base ** (-jnp.arange(half) / half)
    ang = positions[:, None, None] * freq
    a, b = x[..., :half], x[..., half:]
    c, s = jnp.cos(ang), jnp.sin(ang)
    return jnp.concatenate([a * c - b * s, b * c + a * s], axis=-1)


def write(cache, k, v):
    put = jax.lax.dynamic_update_slice_in_dim
    return Cache(
        put(cache.k, k, cache.index, axis=0),
        put(cache.v, v, cache.index, axis=0),
        cache.index + k.shape[0],
    )


def attend(q, k, v, visible):
    s = jnp.einsum("qhd,khd->hqk", q, k) * q.shape[-1] ** -0.5
    s = jnp.where(visible[None], s, -1e30)
    return jnp.einsum("hqk,khd->qhd", jax.nn.softmax(s, axis=-1), v)


def apply(params, x, cache=None):
    """x [T, width] (one episode; vmap for a batch) -> ([T, width], cache)"""
    T = x.shape[0]
    q, k, v = (jnp.einsum("tw,whd->thd", x, params[n]) for n in "qkv")
    if cache is None:
        pos = jnp.arange(T)
        visible = pos[None, :] <= pos[:, None]
        y = attend(rotary(q, pos), rotary(k, pos), v, visible)
        return jnp.einsum("thd,hdw->tw", y, params["o"]), None

    cache_len = cache.index + T
    pos = cache_len + jnp.arange(T)
    cache = write(cache, rotary(k, pos), v)
    slots = jnp.arange(cache.k.shape[0])
    visible = slots[None, :] <= (cache_len - T + jnp.arange(T))[:, None]
    y = attend(rotary(q, pos), cache.k, cache.v, visible)
    return jnp.einsum("thd,hdw->tw", y, params["o"]), cache


def rollout(params, first, steps, max_len=64):
    """Feeds the output back as the next observation (sanity test for the sampler)."""
    def body(carry, _):
        x, cache = carry
        y, cache = apply(params, x, cache)
        y = y[-1:] / (1e-6 + jnp.linalg.norm(y[-1:]))
        return (y, cache), y[0]

    y, cache = apply(params, first, empty_cache(params, max_len))
    _, ys = jax.lax.scan(body, (y[-1:], cache), None, length=steps)
    return ys


if __name__ == "__main__":
    p = init(jax.random.PRNGKey(0), 16, 2, 8)
    print(rollout(p, jax.random.normal(jax.random.PRNGKey(1), (5, 16)), 4).shape)
