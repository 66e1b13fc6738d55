"""Grouped-query attention with O(L) memory in JAX (lax.scan over key chunks).

Port of the idea of Rabe & Staats, "Self-attention Does Not Need O(n^2)
Memory".  Layout is [batch, length, heads, head_dim] as in jax.nn; query head h
reads key/value head h // (heads // kv_heads).  `lengths` are the numbers of
real keys of each sample; chunks are padded to a full size with masked keys.
"""
from functools import partial
from typing import Optional

import jax
import jax.numpy as jnp

NEG = -1e30


@partial(jax.jit, static_argnames=("chunk",))
def chunked_attention(q, k, v, lengths: Optional[jax.Array] = None, chunk: int = 4):
    b, tq, h, d = q.shape
    tk, hk = k.shape[1], k.shape[2]
    g = h // hk
    q = q.reshape(b, tq, hk, g, d) * (d ** -0.5)

    if lengths is None:
        lengths = jnp.full((b,), tk)
    pad = -tk % chunk
    k = jnp.pad(k, ((0, 0), (0, pad), (0, 0), (0, 0)))
    v = jnp.pad(v, ((0, 0), (0, pad), (0, 0), (0, 0)))
    n = (tk + pad) // chunk
    kc = k.reshape(b, n, chunk, hk, d).swapaxes(0, 1)
    vc = v.reshape(b, n, chunk, hk, d).swapaxes(0, 1)
    valid = (jnp.arange(tk + pad)[None, :] < lengths[:, None]).reshape(b, n, chunk)
    valid = valid.swapaxes(0, 1)

    def body(carry, piece):
        acc, m, z = carry
        kk, vv, ok = piece
        s = jnp.einsum("btkgd,bskd->bkgts", q, kk)
        s = jnp.where(ok[:, None, None, None, :], s, NEG)
        m_new = jnp.maximum(m, s.max(-1))
        p = jnp.exp(s - m_new[..., None])
        p = jnp.where(ok[:, None, None, None, :], p, 0.0)
        fix = jnp.exp(m - m_new)
        acc = acc * fix[..., None] + jnp.einsum("bkgts,bskd->bkgtd", p, vv)
        return (acc, m_new, z * fix + p.sum(-1)), None

    init = (
        jnp.zeros((b, hk, g, tq, d), q.dtype),
        jnp.full((b, hk, g, tq), NEG, q.dtype),
        jnp.zeros((b, hk, g, tq), q.dtype),
    )
    (acc, _, z), _ = jax.lax.scan(body, init, (kc, vc, valid))
    out = acc / jnp.maximum(z, 1e-30)[..., None]      # no key at all: zeros
    return out.transpose(0, 3, 1, 2, 4).reshape(b, tq, h, d)


if __name__ == "__main__":
    a, b_, c = jax.random.split(jax.random.PRNGKey(0), 3)
    q = jax.random.normal(a, (2, 5, 4, 8))
    k = jax.random.normal(b_, (2, 7, 2, 8))
    v = jax.random.normal(c, (2, 7, 2, 8))
    print(chunked_attention(q, k, v, jnp.array([7, 3])).shape)
