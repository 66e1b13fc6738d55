"""SMILES generator in JAX: fixed-size cache, jit friendly.

"cur" is the number of tokens that are already stored. Rotary layout: half split
(first half with second half), as in LLaMA checkpoints exported by HF.
"""
import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp

MAXLEN = 64


class KVCache(NamedTuple):
    k: jax.Array      # (MAXLEN, H, D)
    v: jax.Array
    cur: jax.Array    # int32 scalar


def new_cache(heads, dim, dtype=jnp.float32, maxlen=MAXLEN):
    z = jnp.zeros((maxlen, heads, dim), dtype)
    return KVCache(z, z, jnp.int32(0))


def rotary(x, pos, theta=10_000.0):
    d = x.shape[-1]
    freq = theta ** (-jnp.arange(0, d, 2) / d)
    a = pos[:, None] * freq
    cos = jnp.concatenate([jnp.cos(a), jnp.cos(a)], -1)[:, None]
    sin = jnp.concatenate([jnp.sin(a), jnp.sin(a)], -1)[:, None]
    lo, hi = jnp.split(x, 2, -1)
    return x * cos + jnp.concatenate([-hi, lo], -1) * sin


def attend(w, x, cache, heads):
    """x: (t, width), the next t tokens. Returns (t, width) and the grown cache.

    Token i of this call sees everything stored before and the tokens 0..i of this call.
    """
    t, width = x.shape
    split = lambda y: y.reshape(t, heads, width // heads)
    q, k, v = split(x @ w["q"]), split(x @ w["k"]), split(x @ w["v"])
    pos = cache.cur + jnp.arange(t)
    q, k = rotary(q, pos), rotary(k, pos)
    at = (cache.cur, jnp.zeros_like(cache.cur), jnp.zeros_like(cache.cur))
    K = jax.lax.dynamic_update_slice(cache.k, k.astype(cache.k.dtype), at)
    V = jax.lax.dynamic_update_slice(cache.v, v.astype(cache.v.dtype), at)
    s = jnp.einsum("qhd,khd->hqk", q, K) / jnp.sqrt(q.shape[-1])
    seen = jnp.arange(K.shape[0])[None, :] <= pos[:, None]
    p = jax.nn.softmax(jnp.where(seen, s, jnp.finfo(s.dtype).min), axis=-1)
    y = jnp.einsum("hqk,khd->qhd", p, V).reshape(t, width)
    return y @ w["o"], KVCache(K, V, cache.cur + t)


def init_weights(key, vocab, width):
    ks = jax.random.split(key, 5)
    w = {n: jax.random.normal(k, (width, width)) * width ** -0.5 for n, k in zip("qkvo", ks)}
    w["emb"] = jax.random.normal(ks[4], (vocab, width))
    return w


@functools.partial(jax.jit, static_argnames=("heads",))
def step(w, tok, cache, heads=4):
    x = w["emb"][tok]
    y, cache = attend(w, x, cache, heads)
    return (x + y) @ w["emb"].T, cache


def generate(w, prompt, n, heads=4):
    cache = new_cache(heads, w["q"].shape[0] // heads)
    logits, cache = step(w, jnp.asarray(prompt), cache, heads)
    out = list(prompt)
    for _ in range(n):
        out.append(int(logits[-1].argmax()))
        logits, cache = step(w, jnp.asarray(out[-1:]), cache, heads)
    return out
