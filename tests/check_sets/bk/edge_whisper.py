"""Streaming decoder step for the hearing-aid captioner (JAX, fixed memory).

The device has room for W tokens of KV, so the cache is a ring: token t lives in slot
t mod W and overwrites token t - W. A step therefore reads the last W tokens, the
current one included (fewer at the very beginning). Everything is jit-able with static
shapes.
"""
from typing import NamedTuple

import jax
import jax.numpy as jnp


class Ring(NamedTuple):
    k: jax.Array        # [W, H, D]
    v: jax.Array        # [W, H, D]
    pos: jax.Array      # int32 scalar, tokens seen so far


def empty_ring(window: int, heads: int, dim: int) -> Ring:
    z = jnp.zeros((window, heads, dim))
    return Ring(z, z, jnp.zeros((), jnp.int32))


def ring_step(ring: Ring, q: jax.Array, k: jax.Array, v: jax.Array):
    """q, k, v [H, D] of the current token -> (new ring, y [H, D])"""
    W, _, D = ring.k.shape
    slot = ring.pos % W
    keys = jax.lax.dynamic_update_index_in_dim(ring.k, k, slot, axis=0)
    vals = jax.lax.dynamic_update_index_in_dim(ring.v, v, slot, axis=0)
    filled = jnp.arange(W) <= slot
    s = jnp.einsum("hd,whd->hw", q, keys) * D ** -0.5
    s = jnp.where(filled[None, :], s, -jnp.inf)
    y = jnp.einsum("hw,whd->hd", jax.nn.softmax(s, axis=-1), vals)
    return Ring(keys, vals, ring.pos + 1), y


def init(key, width=32, heads=4, vocab=64):
    ks = jax.random.split(key, 5)
    g = lambda k, *s: jax.random.normal(k, s) * s[0] ** -0.5
    d = width // heads
    return {
        "emb": g(ks[0], vocab, width),
        "qkv": g(ks[1], width, 3, heads, d),
        "out": g(ks[2], heads * d, width),
        "ctc": g(ks[3], width, vocab),
    }


def decode_step(params, ring, token):
    x = params["emb"][token]
    q, k, v = jnp.einsum("c,cnhd->nhd", x, params["qkv"])
    ring, y = ring_step(ring, q, k, v)
    x = x + y.reshape(-1) @ params["out"]
    return ring, x @ params["ctc"]


@jax.jit
def transcribe(params, ring, tokens):
    """Teacher-forced logits for a whole chunk, tokens [T]."""
    return jax.lax.scan(lambda r, t: decode_step(params, r, t), ring, tokens)


if __name__ == "__main__":
    p = init(jax.random.PRNGKey(0))
    ring, logits = transcribe(p, empty_ring(8, 4, 8), jnp.arange(12))
    print(logits.shape, int(ring.pos))
