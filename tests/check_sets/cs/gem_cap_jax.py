"""Decoder attention with tanh soft-capping of the logits (Gemma-2 style)."""
import jax
import jax.numpy as jnp


@jax.jit
def capped_attention(q, k, v, cap=5.0):
    """Causal attention.

    q, k, v: [B, T, H, D].  Logits are q.k / sqrt(D), squashed to (-cap, cap);
    a position never receives weight from later positions.
    """
    T = q.shape[1]
    logits = jnp.einsum("bthd,bshd->bhts", q, k) / jnp.sqrt(q.shape[-1])
    future = jnp.triu(jnp.ones((T, T), dtype=bool), k=1)
    logits = jnp.where(future, -jnp.inf, logits)
    logits = cap * jnp.tanh(logits / cap)
    probs = jax.nn.softmax(logits, axis=-1)
    return jnp.einsum("bhts,bshd->bthd", probs, v)
