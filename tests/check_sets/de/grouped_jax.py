"""Decode step of a Llama-like model in plain jax.numpy (weights come from safetensors)."""
import jax
import jax.numpy as jnp


def spread(t, times):
    """(B, G, S, d) -> (B, G * times, S, d)"""
    return jnp.tile(t, (1, times, 1, 1))


def decode_step(q, cache_k, cache_v, length):
    """
    q        (B, H, d)      query of the newest token
    cache_k  (B, G, S, d)   S slots, the first `length` of them are filled (>= 1)
    cache_v  (B, G, S, d)
    Query heads 0 .. H/G-1 belong to kv group 0, the next H/G to group 1, and so on.
    Returns (B, H, d).
    """
    B, H, d = q.shape
    G, S = cache_k.shape[1], cache_k.shape[2]
    k = spread(cache_k, H // G)
    v = spread(cache_v, H // G)
    logits = jnp.einsum("bhd,bhsd->bhs", q, k).astype(jnp.float32) * d ** -0.5
    filled = jnp.arange(S) < length
    logits = jnp.where(filled, logits, -jnp.inf)
    p = jax.nn.softmax(logits, axis=-1).astype(q.dtype)
    return jnp.einsum("bhs,bhsd->bhd", p, v)
