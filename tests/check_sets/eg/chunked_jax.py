"""Memory-efficient attention in JAX ("Self-attention does not need O(n^2) memory")."""
import functools

import jax
import jax.numpy as jnp
from jax import lax


def _chunk_scanner(q, k, v, chunk):
    """q [Lq, H, D], already scaled; k and v [Lk, H, D], Lk a multiple of chunk."""
    n_q, heads, dim = q.shape
    ks = k.reshape(-1, chunk, heads, dim)
    vs = v.reshape(-1, chunk, heads, v.shape[-1])

    def step(carry, kv):
        acc, total, peak = carry
        k_c, v_c = kv
        s = jnp.einsum("qhd,khd->qhk", q, k_c)
        new_peak = jnp.maximum(peak, s.max(-1))
        corr = jnp.exp(peak - new_peak)
        p = jnp.exp(s - new_peak[..., None])
        acc = acc * corr[..., None] + jnp.einsum("qhk,khd->qhd", p, v_c)
        total = total * corr + p.sum(-1)
        return (acc, total, new_peak), None

    init = (jnp.zeros((n_q, heads, v.shape[-1])), jnp.zeros((n_q, heads)),
            jnp.full((n_q, heads), -jnp.inf))
    (acc, total, _), _ = lax.scan(step, init, (ks, vs))
    return acc / total[..., None]


@functools.partial(jax.jit, static_argnames="chunk")
def mefficient_attention(query, key, value, chunk=4):
    """Exact softmax attention, keys in chunks.

    query [B, Lq, H, D], key and value [B, Lk, H, D], Lk divisible by chunk.
    No mask. Scores are divided by sqrt(D). Returns [B, Lq, H, D].
    """
    query = query / jnp.sqrt(query.shape[-1]).astype(query.dtype)
    return jax.vmap(functools.partial(_chunk_scanner, chunk=chunk))(query, key, value)
