import jax
import jax.numpy as jnp


def rotate_half(x):
    a, b = jnp.split(x, 2, axis=-1)
    return jnp.concatenate([-b, a], axis=-1)


def rope(x, theta=10000.0):
    """GPT-NeoX style: dimension i is turned together with dimension i + d/2, by the angle pos * theta^(-2i/d)."""
    t, d = x.shape[-3], x.shape[-1]
    inv_freq = theta ** (-jnp.arange(0, d, 2) / d)
    angle = jnp.arange(t)[:, None] * inv_freq
    angle = jnp.repeat(angle, 2, axis=-1)[:, None, :]
    return x * jnp.cos(angle) + rotate_half(x) * jnp.sin(angle)


def rotary_self_attention(q, k, v):
    """q, k, v: (B, T, H, d), causal"""
    q, k = rope(q), rope(k)
    return jax.nn.dot_product_attention(q, k, v, is_causal=True)
