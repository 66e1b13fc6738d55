"""Blockwise causal local attention with lax.scan, O(T * W) memory.

Position t attends to the closed range [t - window, t], i.e. itself and
`window` earlier positions.  `window` must not exceed the chunk size.
"""
import jax
import jax.numpy as jnp
from jax import lax

NEG = -1e30


def _pad_time(a, n):
    return jnp.pad(a, [(0, 0), (0, n), (0, 0), (0, 0)])


def local_attention(q, k, v, *, window, chunk, valid=None):
    """q, k, v: (B, T, H, D).  valid: optional (B, T) bool, True = real token.

    Rows without any valid key in reach come out as zeros.
    """
    if window > chunk:
        raise ValueError('window > chunk')
    B, T, H, D = q.shape
    n_pad = -T % chunk
    q, k, v = (_pad_time(a, n_pad) for a in (q, k, v))
    ok = jnp.ones((B, T), bool) if valid is None else valid
    ok = jnp.pad(ok, [(0, 0), (0, n_pad)])
    n = (T + n_pad) // chunk

    def blocks(a):
        return jnp.moveaxis(a.reshape((B, n, chunk) + a.shape[2:]), 1, 0)

    qs, ks, vs, oks = map(blocks, (q, k, v, ok))
    qi = jnp.arange(chunk)[:, None]
    kj = jnp.arange(2 * chunk)[None, :] - chunk      # previous block has negative places
    reach = (kj <= qi) & (qi - kj <= window)

    def body(carry, xs):
        pk, pv, pok = carry
        bq, bk, bv, bok = xs
        kk = jnp.concatenate([pk, bk], 1)
        vv = jnp.concatenate([pv, bv], 1)
        oo = jnp.concatenate([pok, bok], 1)
        s = jnp.einsum('bqhd,bkhd->bhqk', bq, kk) * D ** -0.5
        m = reach[None, None] & oo[:, None, None, :]
        s = jnp.where(m, s, NEG)
        s = s - lax.stop_gradient(s.max(-1, keepdims=True))
        e = jnp.where(m, jnp.exp(s), 0.)
        den = jnp.maximum(e.sum(-1), 1e-30)
        out = jnp.einsum('bhqk,bkhd->bqhd', e, vv) / jnp.swapaxes(den, 1, 2)[..., None]
        return (bk, bv, bok), out

    zero = (jnp.zeros_like(ks[0]), jnp.zeros_like(vs[0]), jnp.zeros_like(oks[0]))
    _, out = lax.scan(body, zero, (qs, ks, vs, oks))
    return jnp.moveaxis(out, 0, 1).reshape(B, n * chunk, H, D)[:, :T]


class LocalBlock:
    """pre-norm residual block around the function above"""

    def __init__(self, dim, heads, window=4, chunk=4):
        self.dim, self.h, self.window, self.chunk = dim, heads, window, chunk

    def init(self, key):
        a, b = jax.random.split(key)
        return {'qkv': jax.random.normal(a, (self.dim, 3 * self.dim)) * self.dim ** -0.5,
                'out': jax.random.normal(b, (self.dim, self.dim)) * self.dim ** -0.5}

    def __call__(self, p, x, valid=None):
        B, T, D = x.shape
        y = x / jnp.sqrt(jnp.mean(x ** 2, -1, keepdims=True) + 1e-6)
        q, k, v = jnp.moveaxis((y @ p['qkv']).reshape(B, T, 3, self.h, -1), 2, 0)
        o = local_attention(q, k, v, window=self.window, chunk=self.chunk, valid=valid)
        return x + o.reshape(B, T, D) @ p['out']
