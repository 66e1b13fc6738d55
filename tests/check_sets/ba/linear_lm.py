"""Linear-attention language model for bedtime stories (JAX).

phi(x) = relu(x)^2 + 1e-3.  Causal:
    y_i = sum_{j<=i} (phi(q_i).phi(k_j)) v_j / sum_{j<=i} phi(q_i).phi(k_j)
The parallel form is used for training, `LinState` for generation.
"""
from typing import NamedTuple

import jax
import jax.numpy as jnp


class LinState(NamedTuple):
    kv: jax.Array   # [B, H, D, E]
    z: jax.Array    # [B, H, D]


def phi(x):
    return jnp.square(jax.nn.relu(x)) + 1e-3


def parallel_linear_attention(q, k, v):
    """q, k [B, T, H, D]; v [B, T, H, E] -> [B, T, H, E]"""
    q, k = phi(q), phi(k)
    outer = jnp.einsum("bthd,bthe->bthde", k, v)
    memory = jnp.cumsum(outer, axis=1)
    top = jnp.einsum("bthd,bthde->bthe", q, memory)
    bottom = jnp.einsum("bthd,bhd->bth", q, k.sum(axis=1))
    return top / bottom[..., None]


def recurrent_step(state, q, k, v):
    """q, k [B, H, D]; v [B, H, E]"""
    q, k = phi(q), phi(k)
    state = LinState(state.kv + jnp.einsum("bhd,bhe->bhde", k, v), state.z + k)
    y = jnp.einsum("bhd,bhde->bhe", q, state.kv) / jnp.einsum("bhd,bhd->bh", q, state.z)[..., None]
    return state, y


def init_block(rng, width, heads):
    ks = jax.random.split(rng, 4)
    d = width // heads
    f = width ** -0.5
    return {
        "wq": jax.random.normal(ks[0], (width, heads, d)) * f,
        "wk": jax.random.normal(ks[1], (width, heads, d)) * f,
        "wv": jax.random.normal(ks[2], (width, heads, d)) * f,
        "wo": jax.random.normal(ks[3], (heads, d, width)) * f,
    }


def apply_block(p, x):
    mu, var = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    h = (x - mu) * jax.lax.rsqrt(var + 1e-5)
    q, k, v = (jnp.einsum("btc,chd->bthd", h, p[n]) for n in ("wq", "wk", "wv"))
    return x + jnp.einsum("bthd,hdc->btc", parallel_linear_attention(q, k, v), p["wo"])


def lm_loss(params, tokens):
    x = params["emb"][tokens[:, :-1]]
    for p in params["blocks"]:
        x = apply_block(p, x)
    logp = jax.nn.log_softmax(x @ params["emb"].T)
    return -jnp.take_along_axis(logp, tokens[:, 1:, None], axis=-1).mean()
