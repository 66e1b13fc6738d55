"""Sliding window attention as pure functions over a params dict (JAX)."""
import math

import jax
import jax.numpy as jnp


def init(key, dim, heads):
    ks = jax.random.split(key, 4)
    std = dim ** -0.5
    p = {n: jax.random.normal(k, (dim, dim)) * std for n, k in zip(("wq", "wk", "wv", "wo"), ks)}
    p["ln"] = jnp.ones((dim,))
    return p


def band(length: int, window: int) -> jax.Array:
    """bool [length, length]; True for the `window` newest tokens up to and including
    the query itself (Mistral's definition: a window of 1 sees only itself)."""
    i = jnp.arange(length)[:, None]
    j = jnp.arange(length)[None, :]
    return (j <= i) & (i - j <= window)


def rms(x, g):
    return x * jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-6) * g


def window_attention(params, x, heads, window, pad=None):
    """x [B, L, D]; pad bool [B, L], True for padding on the right."""
    B, L, D = x.shape
    dh = D // heads
    q = (x @ params["wq"]).reshape(B, L, heads, dh)
    k = (x @ params["wk"]).reshape(B, L, heads, dh)
    v = (x @ params["wv"]).reshape(B, L, heads, dh)
    logits = jnp.einsum("blhd,bmhd->bhlm", q, k) / math.sqrt(dh)
    see = band(L, window)[None, None]
    if pad is not None:
        see = see & ~pad[:, None, None, :]
    logits = jnp.where(see, logits, jnp.finfo(logits.dtype).min)
    w = jax.nn.softmax(logits, axis=-1)
    y = jnp.einsum("bhlm,bmhd->blhd", w, v).reshape(B, L, D)
    return y @ params["wo"]


def layer(params, x, heads, window, pad=None):
    return x + window_attention(params, rms(x, params["ln"]), heads, window, pad)


def stack(all_params, x, heads, window, pad=None):
    for p in all_params:
        x = layer(p, x, heads, window, pad)
    return x


def receptive_field(layers: int, window: int) -> int:
    """Number of tokens which can influence the last one."""
    return layers * (window - 1) + 1


def cross_entropy(logits, labels, ignore=-100):
    ok = labels != ignore
    logp = jax.nn.log_softmax(logits)
    ll = jnp.take_along_axis(logp, jnp.where(ok, labels, 0)[..., None], -1)[..., 0]
    return -jnp.sum(jnp.where(ok, ll, 0.0)) / jnp.maximum(ok.sum(), 1)
