import jax
import jax.numpy as jnp


def masked_attention(q, k, v, mask):
    """q (T, d), k and v (S, d), mask (T, S): True where the query may look at the key."""
    logits = q @ k.T * jax.lax.rsqrt(float(q.shape[-1]))
    logits.at[~mask].set(-1e30)
    return jax.nn.softmax(logits, axis=-1) @ v
