"""Chunked prefill: a prompt enters in pieces, each attending to everything cached so far."""
import jax
import jax.numpy as jnp


def init_cache(batch, heads, dim):
    empty = jnp.zeros((batch, heads, 0, dim))
    return {"k": empty, "v": empty}


def attend_chunk(q, k, v, cache):
    """Causal attention of one chunk.

    q, k, v: [batch, heads, chunk, dim] of the newest `chunk` tokens.
    cache: keys and values of all the tokens that came before the chunk.
    Each token attends to itself and to every earlier token, cached or not.
    Returns the output [batch, heads, chunk, dim] and the new cache.
    """
    keys = jnp.concatenate([cache["k"], k], axis=2)
    values = jnp.concatenate([cache["v"], v], axis=2)
    n, m = q.shape[2], keys.shape[2]
    logits = jnp.einsum("bhqd,bhkd->bhqk", q, keys) / jnp.sqrt(q.shape[-1])
    causal = jnp.tril(jnp.ones((n, m), dtype=bool))
    logits = jnp.where(causal, logits, jnp.finfo(logits.dtype).min)
    weights = jax.nn.softmax(logits, axis=-1)
    out = jnp.einsum("bhqk,bhkd->bhqd", weights, values)
    return out, {"k": keys, "v": values}
