"""Self-attention does not need O(n^2) memory (Rabe and Staats 2021)."""
import functools

import jax
import jax.numpy as jnp
from jax import lax


def _query_chunk(query, key, value, key_chunk):
    # query (q, h, d); key (n, h, d); value (n, h, e)
    n = key.shape[0]
    query = query / jnp.sqrt(query.shape[-1])

    @functools.partial(jax.checkpoint, prevent_cse=False)
    def summarize(start):
        k = lax.dynamic_slice_in_dim(key, start, key_chunk, axis=0)
        v = lax.dynamic_slice_in_dim(value, start, key_chunk, axis=0)
        s = jnp.einsum("qhd,khd->qhk", query, k)
        top = lax.stop_gradient(jnp.max(s, axis=-1, keepdims=True))
        e = jnp.exp(s - top)
        return jnp.einsum("vhe,qhv->qhe", v, e), e.sum(axis=-1), top[..., 0]

    values, weights, tops = lax.map(summarize, jnp.arange(0, n, key_chunk))
    top = jnp.max(tops, axis=0, keepdims=True)
    shift = jnp.exp(tops - top)
    return (values * shift[..., None]).sum(axis=0) / (weights * shift).sum(axis=0)[..., None]


def memory_efficient_attention(query, key, value, query_chunk=4, key_chunk=4):
    """query (t, h, d), key (n, h, d), value (n, h, e); t and n are multiples of their chunks."""
    t, h, d = query.shape
    blocks = query.reshape(t // query_chunk, query_chunk, h, d)
    out = lax.map(lambda q: _query_chunk(q, key, value, key_chunk), blocks)
    return out.reshape(t, h, value.shape[-1])
