"""Perceiver IO in plain JAX: inputs -> latents -> output queries, everything a pytree of parameters."""
from functools import partial

import jax
import jax.numpy as jnp
from jax import random


def dense_init(key, n_in, n_out):
    return {"w": random.normal(key, (n_in, n_out)) / jnp.sqrt(n_in), "b": jnp.zeros(n_out)}


def dense(p, x):
    return x @ p["w"] + p["b"]


def ln(x):
    return (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5)


def attn_init(key, d_q, d_kv, d_head, heads):
    kq, kk, kv, ko = random.split(key, 4)
    inner = d_head * heads
    return {
        "q": dense_init(kq, d_q, inner),
        "k": dense_init(kk, d_kv, inner),
        "v": dense_init(kv, d_kv, inner),
        "o": dense_init(ko, inner, d_q),
    }


def single_head(q, k, v):
    # q (n, d), k (m, d), v (m, d)
    logits = (q / q.shape[-1] ** -0.5) @ k.T
    return jax.nn.softmax(logits, axis=1) @ v


def attn(p, x, ctx, heads):
    """x (n, d_q), ctx (m, d_kv)"""
    x, ctx = ln(x), ln(ctx)
    cut = lambda t: t.reshape(t.shape[0], heads, -1)
    q, k, v = cut(dense(p["q"], x)), cut(dense(p["k"], ctx)), cut(dense(p["v"], ctx))
    out = jax.vmap(single_head, in_axes=1, out_axes=1)(q, k, v)
    return dense(p["o"], out.reshape(x.shape[0], -1))


def init(key, d_in, d_lat=24, n_lat=6, d_query=10, depth=2, heads=3, d_head=8):
    k = random.split(key, depth + 4)
    return {
        "latents": random.normal(k[0], (n_lat, d_lat)),
        "read": attn_init(k[1], d_lat, d_in, d_head, heads),
        "process": [attn_init(k[4 + i], d_lat, d_lat, d_head, heads) for i in range(depth)],
        "write": attn_init(k[2], d_query, d_lat, d_head, heads),
        "out": dense_init(k[3], d_query, 1),
    }


@partial(jax.jit, static_argnames="heads")
def apply(params, inputs, queries, heads=3):
    """inputs (batch, m, d_in), queries (batch, n, d_query) -> (batch, n)"""

    def one(x, q):
        z = params["latents"]
        z = z + attn(params["read"], z, x, heads)
        for p in params["process"]:
            z = z + attn(p, z, z, heads)
        y = q + attn(params["write"], q, z, heads)
        return dense(params["out"], y)[:, 0]

    return jax.vmap(one)(inputs, queries)


if __name__ == "__main__":
    params = init(random.PRNGKey(0), d_in=7)
    print(apply(params, random.normal(random.PRNGKey(1), (2, 15, 7)), random.normal(random.PRNGKey(2), (2, 4, 10))))
