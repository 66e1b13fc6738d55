"""Cross-matching of sky survey sources, memory-lean attention in JAX.

`blocked_attention` equals softmax(q k^T / sqrt(d)) v, but it visits the catalogue in blocks
of `block` rows with a running maximum, so a catalogue of any length fits.
"""
from typing import NamedTuple

import jax
import jax.numpy as jnp


class Carry(NamedTuple):
    acc: jax.Array  # [n, e]
    top: jax.Array  # [n, 1]
    den: jax.Array  # [n, 1]


def _start(n, e, dtype):
    return Carry(jnp.zeros((n, e), dtype), jnp.full((n, 1), -jnp.inf, dtype), jnp.zeros((n, 1), dtype))


def _absorb(carry, s, v):
    top = jnp.maximum(carry.top, s.max(-1, keepdims=True))
    keep = jnp.exp(carry.top - top)
    p = jnp.exp(s - top)
    return Carry(carry.acc * keep + p @ v, top, carry.den * keep + p.sum(-1, keepdims=True))


def blocked_attention(q, k, v, block=128):
    """q [n, d], k [m, d], v [m, e]; any m >= 1.  Returns [n, e]."""
    n, d = q.shape
    m, e = v.shape
    block = min(block, m)
    q = q / jnp.sqrt(d)
    steps = m // block

    def body(i, carry):
        kb = jax.lax.dynamic_slice_in_dim(k, i * block, block)
        vb = jax.lax.dynamic_slice_in_dim(v, i * block, block)
        return _absorb(carry, q @ kb.T, vb)

    out = jax.lax.fori_loop(0, steps, body, _start(n, e, q.dtype))
    return out.acc / out.den


def unit_vectors(ra, dec):
    """Right ascension and declination in radians -> [.., 3]."""
    c = jnp.cos(dec)
    return jnp.stack([c * jnp.cos(ra), c * jnp.sin(ra), jnp.sin(dec)], -1)


def match_features(obs, cat, cat_feat, sharp=50.0, block=128):
    """Soft cross-match: features of the catalogue at the observed places."""
    return blocked_attention(obs * sharp, cat * sharp, cat_feat, block)


if __name__ == "__main__":
    key = jax.random.PRNGKey(0)
    ra, dec = jax.random.uniform(key, (2, 1000))
    cat = unit_vectors(ra, dec)
    print(match_features(cat[:5], cat, jnp.ones((1000, 2))).shape)
