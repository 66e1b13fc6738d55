"""Self-attention does not need O(n^2) memory (Rabe & Staats, 2021), functional JAX."""
import functools
from typing import NamedTuple, Optional

import jax
import jax.numpy as jnp
from jax import lax


class Chunk(NamedTuple):
    values: jax.Array      # exp-weighted values  [q, h, d]
    weights: jax.Array     # sum of exponentials  [q, h]
    top: jax.Array         # local maximum        [q, h]


def _summarize(query, key, value, visible):
    s = jnp.einsum("qhd,khd->qhk", query, key)
    s = jnp.where(visible[:, None, :], s, -jnp.inf)
    top = lax.stop_gradient(jnp.max(s, axis=-1, keepdims=True))
    top = jnp.where(jnp.isfinite(top), top, jnp.finfo(s.dtype).min / 2)
    e = jnp.exp(s - top)
    return Chunk(jnp.einsum("khf,qhk->qhf", value, e), e.sum(-1), top[..., 0])


def _attend_query_chunk(query, key, value, q_pos, lengths, causal, key_chunk):
    n_k = key.shape[0]
    query = query / jnp.sqrt(query.shape[-1]).astype(query.dtype)

    @functools.partial(jax.checkpoint, prevent_cse=False)
    def one(start):
        k = lax.dynamic_slice_in_dim(key, start, key_chunk)
        v = lax.dynamic_slice_in_dim(value, start, key_chunk)
        k_pos = start + jnp.arange(key_chunk)
        visible = jnp.broadcast_to(k_pos[None, :] < lengths, (query.shape[0], key_chunk))
        if causal:
            visible = visible & (k_pos[None, :] <= q_pos[:, None])
        return _summarize(query, k, v, visible)

    parts = lax.map(one, jnp.arange(0, n_k, key_chunk))
    top = parts.top.max(axis=0, keepdims=True)
    scale = jnp.exp(parts.top - top)
    values = (parts.values * scale[..., None]).sum(0)
    weights = (parts.weights * scale).sum(0)
    return values / jnp.where(weights == 0, 1.0, weights)[..., None]


def attention(query, key, value, length: Optional[jax.Array] = None, causal: bool = False,
              query_chunk: int = 128, key_chunk: int = 256):
    """query [Lq, H, D], key [Lk, H, D], value [Lk, H, F] -> [Lq, H, F].

    Only the first `length` keys exist (all when None). With causal=True the last query is
    aligned with the last *real* key, i.e. query i sits at position length - Lq + i. A query
    which sees nothing gives zeros. Use vmap for a batch.
    """
    n_q, n_k = query.shape[0], key.shape[0]
    key_chunk, query_chunk = min(key_chunk, n_k), min(query_chunk, n_q)
    length = jnp.asarray(n_k if length is None else length)
    pad_k, pad_q = -n_k % key_chunk, -n_q % query_chunk
    key = jnp.pad(key, ((0, pad_k), (0, 0), (0, 0)))
    value = jnp.pad(value, ((0, pad_k), (0, 0), (0, 0)))
    query = jnp.pad(query, ((0, pad_q), (0, 0), (0, 0)))
    offset = length - n_q

    def body(carry, start):
        q = lax.dynamic_slice_in_dim(query, start, query_chunk)
        pos = offset + start + jnp.arange(query_chunk)
        return carry, _attend_query_chunk(q, key, value, pos, length, causal, key_chunk)

    _, out = lax.scan(body, 0, jnp.arange(0, n_q + pad_q, query_chunk))
    return out.reshape(-1, *out.shape[2:])[:n_q]


batched_attention = jax.vmap(attention, in_axes=(0, 0, 0, 0))
