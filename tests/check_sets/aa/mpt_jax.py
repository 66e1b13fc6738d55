"""MPT-like causal attention with ALiBi, written as pure functions.

Params are a plain dict.  Press et al., "Train Short, Test Long": far keys
are penalised in proportion to their distance, with one slope per head.
"""
import math

import jax
import jax.numpy as jnp


def init_params(key, d_model=32, n_heads=4):
    ks = jax.random.split(key, 4)
    s = d_model ** -0.5
    shape = (d_model, n_heads, d_model // n_heads)
    return {
        "wq": jax.random.normal(ks[0], shape) * s,
        "wk": jax.random.normal(ks[1], shape) * s,
        "wv": jax.random.normal(ks[2], shape) * s,
        "wo": jax.random.normal(ks[3], (n_heads, d_model // n_heads, d_model)) * s,
    }


def head_slopes(n_heads):
    """Geometric slopes; for odd counts interpolate as in the reference code."""
    def pow2(n):
        start = 2.0 ** (-8.0 / n)
        return [start ** (i + 1) for i in range(n)]

    if n_heads & (n_heads - 1) == 0:
        return jnp.array(pow2(n_heads))
    base = 2 ** int(math.floor(math.log2(n_heads)))
    extra = pow2(2 * base)[0::2][: n_heads - base]
    return jnp.array(pow2(base) + extra)


def alibi_bias(n_heads, q_len, k_len):
    """[n_heads, q_len, k_len]; the last query lines up with the last key."""
    q_pos = jnp.arange(k_len - q_len, k_len)
    k_pos = jnp.arange(k_len)
    distance = q_pos[:, None] - k_pos[None, :]
    return head_slopes(n_heads)[:, None, None] * distance


def alibi_attention(params, x):
    """x: [batch, length, d_model] -> same shape."""
    q = jnp.einsum("btm,mhd->bhtd", x, params["wq"])
    k = jnp.einsum("btm,mhd->bhtd", x, params["wk"])
    v = jnp.einsum("btm,mhd->bhtd", x, params["wv"])
    h, t, d = q.shape[1:]
    logits = jnp.einsum("bhqd,bhkd->bhqk", q, k) / jnp.sqrt(d)
    logits = logits + alibi_bias(h, t, t)
    allowed = jnp.tril(jnp.ones((t, t), dtype=bool))
    logits = jnp.where(allowed, logits, jnp.finfo(logits.dtype).min)
    probs = jax.nn.softmax(logits.astype(jnp.float32), axis=-1).astype(x.dtype)
    y = jnp.einsum("bhqk,bhkd->bhqd", probs, v)
    return jnp.einsum("bhqd,hdm->bqm", y, params["wo"])
