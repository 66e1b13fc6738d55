"""Attention with O(chunk) memory, after "Self-attention does not need O(n^2) memory"."""
import jax
import jax.numpy as jnp


def chunked_attention(q, k, v, chunk=4):
    """softmax(q k^T / sqrt(d)) v, computed by a scan over chunks of the keys.

    q: (heads, n, d); k, v: (heads, m, d), m a multiple of chunk
    """
    h, m, d = k.shape
    q = q * d**-0.5
    ks = k.reshape(h, m // chunk, chunk, d).swapaxes(0, 1)
    vs = v.reshape(h, m // chunk, chunk, d).swapaxes(0, 1)

    def body(carry, kv):
        top, den, acc = carry
        kc, vc = kv
        s = jnp.einsum("hnd,hcd->hnc", q, kc)
        new = jnp.maximum(top, s.max(-1))
        p = jnp.exp(s - new[..., None])
        fix = jnp.exp(top - new)
        den = den * fix + p.sum(-1)
        acc = acc + jnp.einsum("hnc,hcd->hnd", p, vc)
        return (new, den, acc), None

    start = (
        jnp.full(q.shape[:2], -jnp.inf),
        jnp.zeros(q.shape[:2]),
        jnp.zeros(q.shape),
    )
    (_, den, acc), _ = jax.lax.scan(body, start, (ks, vs))
    return acc / den[..., None]
