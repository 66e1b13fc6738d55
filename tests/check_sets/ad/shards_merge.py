"""Decode step when the keys of one sequence live on several shards."""
from functools import partial
from typing import NamedTuple, Sequence

import jax
import jax.numpy as jnp


class Partial(NamedTuple):
    o: jax.Array      # [h, d]  normalised within the shard
    lse: jax.Array    # [h]     natural log of the sum of exponentials


@jax.jit
def on_shard(q, k, v, used):
    """q [h, d]; k, v [s, h, d] of which the first `used` rows are filled (maybe none)."""
    s = jnp.einsum("hd,shd->hs", q, k, preferred_element_type=jnp.float32) / q.shape[-1] ** 0.5
    live = jnp.arange(k.shape[0]) < used
    s = jnp.where(live, s, -jnp.inf)
    lse = jax.nn.logsumexp(s, axis=-1)
    safe = jnp.where(jnp.isfinite(lse), lse, 0.0)
    p = jnp.exp(s - safe[:, None])
    return Partial(jnp.einsum("hs,shd->hd", p, jnp.where(live[:, None, None], v, 0)), lse)


def merge(parts: Sequence[Partial]) -> jax.Array:
    lse = jnp.stack([p.lse for p in parts])
    o = jnp.stack([p.o for p in parts])
    w = jax.nn.softmax(lse, axis=0)
    return jnp.einsum("nh,nhd->hd", w, o)


def sharded_decode(q, shards, used):
    """q [h, d]; shards: list of (k, v); used: list of ints, not all zero."""
    return merge([on_shard(q, k, v, u) for (k, v), u in zip(shards, used)])
