"""Gemma-2 style attention with logit soft-capping, JAX."""
from typing import Optional

import jax
import jax.numpy as jnp


def soft_cap(x: jax.Array, cap: float) -> jax.Array:
    return cap * jnp.tanh(x / cap)


def gemma_attention(
    q: jax.Array,
    k: jax.Array,
    v: jax.Array,
    valid: Optional[jax.Array] = None,
    cap: float = 50.0,
    query_pre_attn_scalar: Optional[float] = None,
) -> jax.Array:
    """Causal multi-query attention against a KV cache.

    Args:
      q: [B, T, N, d], the T newest tokens.
      k, v: [B, S, d], cache including the newest tokens, S >= T; one kv head.
      valid: [B, S] bool, True for real tokens. A query always has itself.
      cap: soft cap; the scaled logits are squashed to (-cap, cap). Tokens that may not
        be seen have weight exactly zero.
      query_pre_attn_scalar: logits are divided by its square root; default d.

    Returns:
      [B, T, N, d]. The query at row t sits at position S - T + t and sees the
      positions up to its own.
    """
    T, S, d = q.shape[1], k.shape[1], q.shape[-1]
    q = q * (query_pre_attn_scalar or d) ** -0.5
    logits = jnp.einsum("btnd,bsd->bnts", q, k, preferred_element_type=jnp.float32)

    allowed = jnp.tril(jnp.ones((T, S), dtype=bool))
    allowed = jnp.broadcast_to(allowed, (q.shape[0], T, S))
    if valid is not None:
        allowed = allowed & valid[:, None, :]
    logits = jnp.where(allowed[:, None], logits, -1e30)
    logits = soft_cap(logits, cap)
    probs = jax.nn.softmax(logits, axis=-1).astype(v.dtype)
    return jnp.einsum("bnts,bsd->btnd", probs, v)
