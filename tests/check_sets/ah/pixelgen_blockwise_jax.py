"""Memory-efficient attention in JAX (Rabe & Staats 2021 / blockwise parallel transformer).

Keys and values are visited chunk by chunk with a running maximum, numerator and denominator; up to rounding
the result is softmax(q k^T / sqrt(d)) v. Layout [batch, length, heads, dim].
"""
import functools

import jax
import jax.numpy as jnp
from jax import lax


@functools.partial(jax.jit, static_argnames=("chunk", "causal"))
def blockwise_attention(q, k, v, chunk=8, causal=False):
    B, Lq, H, D = q.shape
    Lk = k.shape[1]
    pad = -Lk % chunk
    n = (Lk + pad) // chunk
    k = jnp.pad(k, ((0, 0), (0, pad), (0, 0), (0, 0))).reshape(B, n, chunk, H, D).swapaxes(0, 1)
    v = jnp.pad(v, ((0, 0), (0, pad), (0, 0), (0, 0))).reshape(B, n, chunk, H, -1).swapaxes(0, 1)
    q = q * D ** -0.5
    row = jnp.arange(Lq)[:, None] + (Lk - Lq)

    def scan_kv(carry, inp):
        num, den, m = carry
        kc, vc, start = inp
        s = jnp.einsum("bqhd,bkhd->bhqk", q, kc)
        col = start + jnp.arange(chunk)[None, :]
        ok = col < Lk
        if causal:
            ok = ok & (col <= row)
        s = jnp.where(ok, s, jnp.finfo(s.dtype).min)
        m_new = jnp.maximum(m, s.max(-1))
        p = jnp.where(ok, jnp.exp(s - m_new[..., None]), 0.0)
        corr = jnp.exp(m - m_new)
        num = num + jnp.einsum("bhqk,bkhd->bhqd", p, vc)
        den = den * corr + p.sum(-1)
        return (num, den, m_new), None

    init = (
        jnp.zeros((B, H, Lq, v.shape[-1])),
        jnp.zeros((B, H, Lq)),
        jnp.full((B, H, Lq), jnp.finfo(q.dtype).min),
    )
    (num, den, _), _ = lax.scan(scan_kv, init, (k, v, jnp.arange(n) * chunk))
    return (num / den[..., None]).swapaxes(1, 2)


def layer_norm(x, eps=1e-5):
    return (x - x.mean(-1, keepdims=True)) * lax.rsqrt(x.var(-1, keepdims=True) + eps)


def pixel_block(p, x, heads, chunk):
    B, L, D = x.shape
    h = layer_norm(x)
    q, k, v = (jnp.dot(h, p[n]).reshape(B, L, heads, -1) for n in ("wq", "wk", "wv"))
    a = blockwise_attention(q, k, v, chunk=chunk, causal=True).reshape(B, L, D)
    x = x + a @ p["wo"]
    return x + jax.nn.gelu(layer_norm(x) @ p["w1"]) @ p["w2"]


def init_block(key, dim):
    shapes = dict(wq=(dim, dim), wk=(dim, dim), wv=(dim, dim), wo=(dim, dim), w1=(dim, 4 * dim), w2=(4 * dim, dim))
    keys = jax.random.split(key, len(shapes))
    return {n: jax.random.normal(k, s) * s[0] ** -0.5 for k, (n, s) in zip(keys, shapes.items())}


def pixel_model(params, pixels, heads=4, chunk=8):
    x = params["embed"][pixels] + params["pos"][: pixels.shape[1]]
    for p in params["blocks"]:
        x = pixel_block(p, x, heads, chunk)
    return layer_norm(x) @ params["embed"].T


def bits_per_dim(logits, pixels):
    lp = jax.nn.log_softmax(logits[:, :-1])
    ll = jnp.take_along_axis(lp, pixels[:, 1:, None], axis=-1)
    return -ll.mean() / jnp.log(2.0)
