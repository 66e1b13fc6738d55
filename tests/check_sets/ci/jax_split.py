"""Split-KV decoding in JAX: each shard makes a partial result, then they are merged.

q: (B, H, d) one new token; k, v: (B, S, H, d); n: number of shards (S % n == 0).
Gives exactly softmax(q k^T / sqrt(d)) v over all S positions.
"""
import jax
import jax.numpy as jnp


def part(q, k, v):
    """(B,H,d), (B,s,H,d) -> o (B,H,d) normalised within the shard, and l (B,H), its
    log-sum-exp."""
    d = q.shape[-1]
    z = jnp.einsum("bhd,bshd->bhs", q, k) * d ** -0.5
    m = z.max(axis=-1, keepdims=True)
    e = jnp.exp(z - m)
    t = e.sum(axis=-1, keepdims=True)
    o = jnp.einsum("bhs,bshd->bhd", e / t, v)
    l = (m * jnp.log2(jnp.e) + jnp.log2(t))[..., 0]
    return o, l


def join(o, l):
    """o (n,B,H,d), l (n,B,H) -> (B,H,d)"""
    m = l.max(axis=0, keepdims=True)
    w = jnp.exp(l - m)
    w = w / w.sum(axis=0, keepdims=True)
    return (w[..., None] * o).sum(axis=0)


def split_decode(q, k, v, n=2):
    B, S, H, d = k.shape
    ks = k.reshape(B, n, S // n, H, d).swapaxes(0, 1)
    vs = v.reshape(B, n, S // n, H, d).swapaxes(0, 1)
    o, l = jax.vmap(part, in_axes=(None, 0, 0))(q, ks, vs)
    return join(o, l)
