"""Memory-efficient attention in JAX (Rabe & Staats): scan over key chunks."""
import jax
import jax.numpy as jnp
from jax import lax


def chunked_attention(query, key, value, bias=None, chunk=4):
    """Full (non-causal) attention.

    query (B, Lq, H, D), key and value (B, Lk, H, D), bias (B or 1, H or 1, Lq, Lk) added to the
    scaled scores. Lk must be a multiple of `chunk`. Returns (B, Lq, H, D).
    """
    B, Lq, H, D = query.shape
    Lk = key.shape[1]
    n = Lk // chunk
    q = query * D ** -0.5
    if bias is None:
        bias = jnp.zeros((1, 1, Lq, Lk), query.dtype)
    bias = jnp.broadcast_to(bias, (B, H, Lq, Lk))

    ks = jnp.moveaxis(key.reshape(B, n, chunk, H, D), 1, 0)
    vs = jnp.moveaxis(value.reshape(B, n, chunk, H, D), 1, 0)
    bs = jnp.moveaxis(bias.reshape(B, H, Lq, n, chunk), 3, 0)

    def body(carry, kvb):
        top, total, acc = carry
        k, v, b = kvb
        s = jnp.einsum("bqhd,bkhd->bhqk", q, k) + b
        new_top = jnp.maximum(top, s.max(-1))
        old = jnp.exp(top - new_top)
        p = jnp.exp(s - new_top[..., None])
        total = total * old + p.sum(-1)
        acc = acc * old[..., None] + jnp.einsum("bhqk,bkhd->bhqd", p, v)
        return (new_top, total, acc), None

    init = (
        jnp.full((B, H, Lq), jnp.finfo(query.dtype).min),
        jnp.zeros((B, H, Lq), query.dtype),
        jnp.zeros((B, H, Lq, D), query.dtype),
    )
    (_, total, acc), _ = lax.scan(body, init, (ks, vs, bs))
    return jnp.swapaxes(acc / total[..., None], 1, 2)


chunked_attention_jit = jax.jit(chunked_attention, static_argnames="chunk")
