import jax
import jax.numpy as jnp


def gqa(q, k, v):
    """Grouped-query attention: q (B, T, H, D), k and v (B, S, K, D), H a multiple of K.

    Consecutive query heads share a key-value head, as in Llama 2.
    """
    H, K = q.shape[2], k.shape[2]
    k = jnp.tile(k, (1, 1, H // K, 1))
    v = jnp.tile(v, (1, 1, H // K, 1))
    logits = jnp.einsum("bthd,bshd->bhts", q, k) * q.shape[-1] ** -0.5
    probs = jax.nn.softmax(logits, axis=-1)
    return jnp.einsum("bhts,bshd->bthd", probs, v)
