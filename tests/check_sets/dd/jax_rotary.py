import jax
import jax.numpy as jnp


def half_turn(x):
    a, b = jnp.split(x, 2, axis=-1)
    return jnp.concatenate([-b, a], axis=-1)


def rope(x, base=10_000.0):
    """x: (B, H, L, d), d even"""
    L, d = x.shape[-2:]
    freq = base ** (-jnp.arange(0, d, 2) / d)
    angle = jnp.arange(L)[:, None] * freq[None, :]
    angle = jnp.repeat(angle, 2, axis=-1)
    return x * jnp.cos(angle) + half_turn(x) * jnp.sin(angle)


def rotary_attention(q, k, v):
    """Scaled dot-product attention, causal, with rotary embeddings on q and k.

    All of shape (B, H, L, d); returns (B, H, L, d).
    """
    q, k = rope(q), rope(k)
    L = q.shape[2]
    s = jnp.einsum("bhqd,bhkd->bhqk", q, k) / jnp.sqrt(q.shape[-1])
    s = jnp.where(jnp.tril(jnp.ones((L, L), bool)), s, -jnp.inf)
    return jax.nn.softmax(s, axis=-1) @ v
