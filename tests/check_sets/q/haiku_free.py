import jax
import jax.numpy as jnp


def init(key, d_model, n_heads):
    ks = jax.random.split(key, 4)
    d = d_model // n_heads
    return {
        "query": jax.random.normal(ks[0], (d_model, n_heads, d)) * 0.3,
        "key": jax.random.normal(ks[1], (d_model, n_heads, d)) * 0.3,
        "value": jax.random.normal(ks[2], (d_model, n_heads, d)) * 0.3,
        "out": jax.random.normal(ks[3], (n_heads, d, d_model)) * 0.3,
    }


def self_attention(params, x):
    """Scaled dot-product self-attention.  x: (batch, time, d_model)"""
    q, k, v = (jnp.einsum("btm,mhd->bthd", x, params[name]) for name in ("query", "key", "value"))
    d = q.shape[-1]
    logits = jnp.einsum("bthd,bshd->bhts", q, k) / d ** -0.5
    out = jnp.einsum("bhts,bshd->bthd", jax.nn.softmax(logits), v)
    return jnp.einsum("bthd,hdm->btm", out, params["out"])
