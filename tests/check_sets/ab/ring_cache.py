"""Streaming decoder for keyword spotting: local attention with a ring-buffer cache,
rolled out under lax.scan so the state stays a fixed-size pytree."""
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax


class RingState(NamedTuple):
    k: jax.Array         # [B, W, H, D]
    v: jax.Array
    pos: jax.Array       # [W] absolute position held by every slot, -1 = empty
    t: jax.Array         # next absolute position


def init_state(batch, window, heads, dim, dtype=jnp.float32):
    z = jnp.zeros((batch, window, heads, dim), dtype)
    return RingState(z, z, jnp.full((window,), -1, jnp.int32), jnp.int32(0))


def init_params(key, d, heads, rel_max):
    kq, kk, kv, ko, kr = jax.random.split(key, 5)
    g = lambda k: jax.random.normal(k, (d, d)) / jnp.sqrt(d)
    return {"wq": g(kq), "wk": g(kk), "wv": g(kv), "wo": g(ko),
            "rel": jax.random.normal(kr, (rel_max, heads)) * 0.5}


def step(params, state, x):
    """one frame.  x [B, d] -> (state, y [B, d])

    The frame sees itself and the window-1 frames before it; rel[i] is the learned
    bias for a key which is i frames old.
    """
    B, d = x.shape
    W, H, D = state.k.shape[1:]
    q = (x @ params["wq"]).reshape(B, H, D)
    k = (x @ params["wk"]).reshape(B, H, D)
    v = (x @ params["wv"]).reshape(B, H, D)

    slot = state.t % W
    ks = state.k.at[:, slot].set(k)
    vs = state.v.at[:, slot].set(v)
    pos = state.pos.at[slot].set(state.t)

    age = state.t - pos                                  # [W], order of the slots does not matter
    filled = pos >= 0
    s = jnp.einsum("bhd,bwhd->bhw", q, ks) / jnp.sqrt(D).astype(x.dtype)
    s = s + params["rel"][jnp.where(filled, age, 0)].T
    s = jnp.where(filled, s, -jnp.inf)
    p = jax.nn.softmax(s, axis=-1)
    y = jnp.einsum("bhw,bwhd->bhd", p, vs).reshape(B, d) @ params["wo"]
    return RingState(ks, vs, pos, state.t + 1), y


def stream(params, state, frames):
    """frames [B, T, d]; may be called again with the returned state"""
    def body(s, x):
        return step(params, s, x)
    state, ys = lax.scan(body, state, frames.swapaxes(0, 1))
    return state, ys.swapaxes(0, 1)


@jax.jit
def spot(params, head, frames, state):
    """log probabilities of the keywords for every frame"""
    state, y = stream(params, state, frames)
    y = jax.nn.relu(frames + y)
    return state, jax.nn.log_softmax(y @ head["w"] + head["b"])
