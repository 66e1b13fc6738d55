"""Memory-efficient attention by chunks of keys (Rabe & Staats), inside a conformer MHSA."""
import jax
import jax.numpy as jnp
from jax import lax


def _pad_to(x, n, axis):
    w = [(0, 0)] * x.ndim
    w[axis] = (0, n - x.shape[axis])
    return jnp.pad(x, w)


def chunked_attention(q, k, v, lengths, chunk=4):
    """q, k, v (B, T, H, D), lengths (B,): frames of the utterance, at least one.

    Running maximum, denominator and numerator over chunks of the keys; never more than
    (B, H, T, chunk) scores at a time.
    """
    B, T, H, D = q.shape
    n = -(-T // chunk)
    k = _pad_to(k, n * chunk, 1).reshape(B, n, chunk, H, D).swapaxes(0, 1)
    v = _pad_to(v, n * chunk, 1).reshape(B, n, chunk, H, D).swapaxes(0, 1)
    idx = jnp.arange(n * chunk).reshape(n, chunk)
    q = q * (D ** -0.5)

    def body(carry, kvi):
        m, l, acc = carry
        kc, vc, ic = kvi
        s = jnp.einsum("bthd,bchd->bhtc", q, kc)
        valid = ic[None, :] < lengths[:, None]
        s = jnp.where(valid[:, None, None, :], s, -1e30)
        m_new = jnp.maximum(m, s.max(-1))
        fix = jnp.exp(m - m_new)
        p = jnp.exp(s - m_new[..., None])
        l = l * fix + p.sum(-1)
        acc = acc * fix[..., None] + jnp.einsum("bhtc,bchd->bhtd", p, vc)
        return (m_new, l, acc), None

    init = (
        jnp.full((B, H, T), -1e30, q.dtype),
        jnp.zeros((B, H, T), q.dtype),
        jnp.zeros((B, H, T, D), q.dtype),
    )
    (_, l, acc), _ = lax.scan(body, init, (k, v, idx))
    return (acc / l[..., None]).swapaxes(1, 2)


class ConformerMHSA:
    """x + W_o attention(LN(x)); padded frames of the result are set to zero."""

    def __init__(self, key, dim=32, heads=4, chunk=4):
        kq, ko = jax.random.split(key)
        self.heads, self.chunk = heads, chunk
        self.w_qkv = jax.random.normal(kq, (dim, 3 * dim)) * dim ** -0.5
        self.w_o = jax.random.normal(ko, (dim, dim)) * dim ** -0.5
        self.gain = jnp.ones(dim)
        self.bias = jnp.zeros(dim)

    def norm(self, x):
        mu = x.mean(-1, keepdims=True)
        var = ((x - mu) ** 2).mean(-1, keepdims=True)
        return (x - mu) * lax.rsqrt(var + 1e-5) * self.gain + self.bias

    def __call__(self, x, lengths):
        B, T, C = x.shape
        qkv = (self.norm(x) @ self.w_qkv).reshape(B, T, 3, self.heads, C // self.heads)
        y = chunked_attention(qkv[:, :, 0], qkv[:, :, 1], qkv[:, :, 2], lengths, self.chunk)
        out = x + y.reshape(B, T, C) @ self.w_o
        alive = jnp.arange(T)[None, :] < lengths[:, None]
        return jnp.where(alive[..., None], out, 0.0)
