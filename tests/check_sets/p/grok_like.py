import jax
import jax.numpy as jnp


def capped_attention(q, k, v, lengths, max_logit=5.0):
    """Attention with capped logits, max_logit * tanh(logits / max_logit), over the first lengths[b] keys of every sample.

    q (B, T, H, D), k and v (B, S, H, D), lengths (B,)
    """
    logits = jnp.einsum("bthd,bshd->bhts", q, k) * (q.shape[-1] ** -0.5)
    valid = jnp.arange(k.shape[1])[None, :] < lengths[:, None]
    logits = jnp.where(valid[:, None, None, :], logits, -1e30)
    logits = max_logit * jnp.tanh(logits / max_logit)
    weights = jax.nn.softmax(logits, axis=-1)
    return jnp.einsum("bhts,bshd->bthd", weights, v)
