"""Embeds Labanotation staves (dance scores) - pure functions over a parameter dict.

A staff is a sequence of columns (support, legs, arms, ...) sampled per beat.
Everything here is single-example; batch with jax.vmap from outside.
The rotary embedding uses the half-split convention: feature i is paired with
feature i + d/2. Both directions in time may be seen: the score is complete.
"""
from functools import partial

import jax
import jax.numpy as jnp

COLUMNS = ("support", "leg", "body", "arm", "head")


def init(key, width=40, heads=5, layers=2, symbols=96):
    names = ["wq", "wk", "wv", "wo"]
    keys = jax.random.split(key, layers * len(names) + 1)
    params = {"symbols": jax.random.normal(keys[-1], (len(COLUMNS), symbols, width)) * 0.02, "layers": []}
    for l in range(layers):
        params["layers"].append({
            n: jax.random.normal(keys[l * len(names) + i], (heads, width, width // heads)) * width ** -0.5
            for i, n in enumerate(names)})
    return params


def rope(x, beat, base=1e4):
    """x [T, d], beat [T] (may be fractional: grace notes sit between beats)."""
    half = x.shape[-1] // 2
    w = base ** (-jnp.arange(half) / half)
    ang = beat[:, None] * w
    a, b = x[:, :half], x[:, half:]
    return jnp.concatenate([a * jnp.cos(ang) - b * jnp.sin(ang), b * jnp.cos(ang) + a * jnp.sin(ang)], -1)


def one_head(x, beat, present, wq, wk, wv, wo):
    """contribution of one head to the residual stream"""
    q, k, v = rope(x @ wq, beat), rope(x @ wk, beat), x @ wv
    s = q @ k.T / jnp.sqrt(q.shape[-1])
    s = jnp.where(present[None, :], s, -1e30)
    p = jax.nn.softmax(s, axis=1)          # [T, T]: axis 1 are the keys
    return (p @ v) @ wo.T


def staff_attention(layer, x, beat, present):
    """x [T, width], beat [T], present [T] bool: True = the symbol exists.

    Head contributions are summed, which is the usual concat + output matrix.
    """
    per_head = jax.vmap(one_head, in_axes=(None, None, None, 0, 0, 0, 0))
    return per_head(x, beat, present, layer["wq"], layer["wk"], layer["wv"], layer["wo"]).sum(0)


def rms(x, eps=1e-6):
    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + eps)


@jax.jit
def embed_staff(params, staff, beat, present):
    """staff [T, columns] int -> [width]"""
    x = sum(params["symbols"][c][staff[:, c]] for c in range(len(COLUMNS)))
    for layer in params["layers"]:
        x = x + staff_attention(layer, rms(x), beat, present)
    w = present.astype(x.dtype)[:, None]
    return rms((x * w).sum(0) / jnp.maximum(w.sum(), 1.0))


embed_many = jax.vmap(embed_staff, in_axes=(None, 0, 0, 0))


@partial(jax.jit, static_argnames="k")
def nearest(bank, query, k=3):
    sims = bank @ query
    return jax.lax.top_k(sims, k)


if __name__ == "__main__":
    p = init(jax.random.PRNGKey(0))
    s = jnp.zeros((12, len(COLUMNS)), jnp.int32)
    print(embed_staff(p, s, jnp.arange(12.0), jnp.ones(12, bool)).shape)
