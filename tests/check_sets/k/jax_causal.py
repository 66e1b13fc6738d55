import jax
import jax.numpy as jnp


def _single(q, k, v):
    t, d = q.shape
    logits = jnp.dot(q, k.T) / jnp.sqrt(d)
    logits = jnp.where(jnp.tril(jnp.ones((t, t), bool)), logits, -1e30)
    return jnp.dot(jax.nn.softmax(logits, axis=-1), v)


@jax.jit
def causal_attention(q, k, v):
    """Causal attention on (batch, heads, time, dim)."""
    return jax.vmap(jax.vmap(_single))(q, k, v)
