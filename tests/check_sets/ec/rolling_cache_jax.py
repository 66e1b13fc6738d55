"""Rolling key/value cache for sliding-window decoding, functional JAX.

State: `k`, `v` (B, W, H, d) start as zeros, `t` counts the tokens written so far.  Token t
goes to slot t % W.  A query reads the last min(t + 1, W) tokens, itself included;
slots that have not been written yet take no part.

Keys come in with their position encoding applied, so slot order does not matter.
"""
from typing import NamedTuple

import jax
import jax.numpy as jnp


class Rolling(NamedTuple):
    k: jax.Array
    v: jax.Array
    t: jax.Array


def init(batch, window, heads, dim, dtype=jnp.float32):
    z = jnp.zeros((batch, window, heads, dim), dtype)
    return Rolling(z, z, jnp.zeros((), jnp.int32))


def step(state: Rolling, q, k, v):
    """q, k, v (B, H, d) of token `state.t` -> (new state, output (B, H, d))."""
    W = state.k.shape[1]
    slot = state.t % W
    keys = state.k.at[:, slot].set(k)
    vals = state.v.at[:, slot].set(v)

    s = jnp.einsum("bhd,bwhd->bhw", q, keys) / jnp.sqrt(q.shape[-1])
    written = jnp.arange(W) < jnp.maximum(state.t + 1, W)
    s = jnp.where(written, s, -jnp.inf)
    p = jax.nn.softmax(s, axis=-1)
    out = jnp.einsum("bhw,bwhd->bhd", p, vals)
    return Rolling(keys, vals, state.t + 1), out


@jax.jit
def decode(q, k, v, state: Rolling):
    """q, k, v (T, B, H, d): feed T tokens one after the other -> (T, B, H, d), state."""
    def body(carry, qkv):
        return step(carry, *qkv)

    state, out = jax.lax.scan(body, state, (q, k, v))
    return out, state
