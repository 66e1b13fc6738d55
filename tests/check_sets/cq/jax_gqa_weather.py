"""Temporal mixer of our nowcasting model: grouped-query attention in plain JAX.

n_head query heads are served by n_kv key/value heads.  As in Llama, *consecutive* query heads
form a group: heads [g*r, (g+1)*r) with r = n_head // n_kv read key/value head g, which is the
layout of the checkpoints we start from.
"""
from functools import partial

import jax
import jax.numpy as jnp


def init(rng, d_model=32, n_head=4, n_kv=2):
    d = d_model // n_head
    kq, kk, kv, ko = jax.random.split(rng, 4)
    s = d_model ** -0.5
    return {
        "wq": jax.random.normal(kq, (d_model, n_head * d)) * s,
        "wk": jax.random.normal(kk, (d_model, n_kv * d)) * s,
        "wv": jax.random.normal(kv, (d_model, n_kv * d)) * s,
        "wo": jax.random.normal(ko, (n_head * d, d_model)) * s,
    }


@partial(jax.jit, static_argnames=("n_head", "n_kv"))
def temporal_mixer(params, x, valid, n_head=4, n_kv=2):
    """
    x: (batch, time, d_model) radar frame embeddings
    valid: (batch, time) bool, False for frames that were lost. Lost frames are never read; frame 0
        is always there.
    returns (batch, time, d_model). Causal in time.
    """
    b, t, d_model = x.shape
    d = d_model // n_head
    q = (x @ params["wq"]).reshape(b, t, n_head, d)
    k = (x @ params["wk"]).reshape(b, t, n_kv, d)
    v = (x @ params["wv"]).reshape(b, t, n_kv, d)

    reps = n_head // n_kv
    k = jnp.tile(k, (1, 1, reps, 1))
    v = jnp.tile(v, (1, 1, reps, 1))

    logits = jnp.einsum("bihd,bjhd->bhij", q, k) * d ** -0.5
    allowed = jnp.tril(jnp.ones((t, t), dtype=bool))[None, None] & valid[:, None, None, :]
    logits = jnp.where(allowed, logits, jnp.finfo(logits.dtype).min)
    w = jax.nn.softmax(logits, axis=-1)
    y = jnp.einsum("bhij,bjhd->bihd", w, v).reshape(b, t, n_head * d)
    return y @ params["wo"]


def residual_stack(layers, x, valid):
    for p in layers:
        mu = x.mean(-1, keepdims=True)
        sd = jnp.sqrt(x.var(-1, keepdims=True) + 1e-6)
        x = x + temporal_mixer(p, (x - mu) / sd, valid)
    return x
