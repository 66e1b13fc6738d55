"""Voice search, port of the torch ALiBi layer to JAX.

alibi_layer(params, x, heads) -> (B, T, D)
    x       (B, T, D) log-mel embeddings, no padding; heads a power of two
    params  {"qkv": (D, 3, D), "out": (D, D)}; index 0, 1, 2 of qkv gives q, k, v, head-major
Frame i attends to frames j <= i; the weights of a frame (over j) sum to one in each head.
    logit = q_i.k_j / sqrt(D / heads) - slope_h * (i - j)
    slope_h = 2 ** (-8 (h + 1) / heads),  h = 0 .. heads - 1     (8 heads: 1/2, 1/4, ...)
"""
import jax
import jax.numpy as jnp


def head_slopes(heads):
    h = jnp.arange(heads, dtype=jnp.float32)
    return jnp.exp2(-8.0 * h / heads)


def alibi_layer(params, x, heads):
    B, T, D = x.shape
    q, k, v = jnp.einsum("btD,Dce->cbte", x, params["qkv"])
    cut = lambda t: t.reshape(B, T, heads, D // heads).transpose(0, 2, 1, 3)
    q, k, v = cut(q), cut(k), cut(v)
    back = jnp.arange(T)[:, None] - jnp.arange(T)[None, :]
    logits = jnp.einsum("bhid,bhjd->bhij", q, k) / jnp.sqrt(D // heads)
    logits = logits - head_slopes(heads)[:, None, None] * back
    logits = jnp.where(back >= 0, logits, -1e30)
    w = jax.nn.softmax(logits, axis=1)
    y = jnp.einsum("bhij,bhjd->bhid", w, v)
    return y.transpose(0, 2, 1, 3).reshape(B, T, D) @ params["out"]
