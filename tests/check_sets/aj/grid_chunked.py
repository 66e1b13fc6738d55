"""Global attention on the icosahedral grid without the full score matrix.

40 962 grid points x 40 962 does not fit, so keys are streamed in chunks (Rabe & Staats 2021)
with a running maximum. Land/ocean variables use ``observed`` to leave grid points out.
"""
from functools import partial

import jax
import jax.numpy as jnp
from jax import lax


def _pad_to(x, multiple, axis, value=0):
    extra = (-x.shape[axis]) % multiple
    if extra == 0:
        return x
    widths = [(0, 0)] * x.ndim
    widths[axis] = (0, extra)
    return jnp.pad(x, widths, constant_values=value)


@partial(jax.jit, static_argnames=("chunk",))
def chunked_attention(q, k, v, observed=None, *, chunk=256):
    """softmax(q k^T / sqrt(d)) v, streamed over keys.

    q [B, Lq, H, D]; k, v [B, Lk, H, D]; observed bool [B, Lk], False = leave the point out.
    A sample with nothing observed returns zeros.
    """
    B, Lq, H, D = q.shape
    Lk = k.shape[1]
    if observed is None:
        observed = jnp.ones((B, Lk), bool)
    k = _pad_to(k, chunk, 1)
    v = _pad_to(v, chunk, 1)
    observed = _pad_to(observed, chunk, 1, False)
    n = k.shape[1] // chunk

    def split(x):
        return jnp.moveaxis(x.reshape(B, n, chunk, *x.shape[2:]), 1, 0)

    qs = q.astype(jnp.float32) * D ** -0.5
    m0 = jnp.full((B, H, Lq), -jnp.inf, jnp.float32)
    l0 = jnp.zeros((B, H, Lq), jnp.float32)
    a0 = jnp.zeros((B, H, Lq, D), jnp.float32)

    def body(carry, xs):
        m, l, acc = carry
        kc, vc, ok = xs
        s = jnp.einsum("bqhd,bkhd->bhqk", qs, kc.astype(jnp.float32))
        s = jnp.where(ok[:, None, None, :], s, -jnp.inf)
        m_new = jnp.maximum(m, s.max(-1))
        m_safe = jnp.where(jnp.isneginf(m_new), 0.0, m_new)
        p = jnp.exp(s - m_safe[..., None])
        corr = jnp.exp(m - m_safe)
        l = l * corr + p.sum(-1)
        acc = acc * corr[..., None] + jnp.einsum("bhqk,bkhd->bhqd", p, vc.astype(jnp.float32))
        return (m_new, l, acc), None

    (_, l, acc), _ = lax.scan(body, (m0, l0, a0), (split(k), split(v), split(observed)))
    out = acc / jnp.where(l == 0.0, 1.0, l)[..., None]
    return jnp.moveaxis(out, 1, 2).astype(q.dtype)


def grid_features(lat, lon, order=4):
    """harmonics of the position, [L, 6 * order]"""
    xyz = jnp.stack([jnp.cos(lat) * jnp.cos(lon), jnp.cos(lat) * jnp.sin(lon), jnp.sin(lat)], -1)
    f = 2.0 ** jnp.arange(order)
    ang = (xyz[..., None] * f).reshape(*xyz.shape[:-1], -1)
    return jnp.concatenate([jnp.sin(ang), jnp.cos(ang)], -1)


def apply_block(params, x, observed, heads, chunk=256):
    B, L, C = x.shape
    h = (x - x.mean(-1, keepdims=True)) / (x.std(-1, keepdims=True) + 1e-5)
    q, k, v = [(h @ params[n]).reshape(B, L, heads, C // heads) for n in ("wq", "wk", "wv")]
    y = chunked_attention(q, k, v, observed, chunk=chunk)
    x = x + y.reshape(B, L, C) @ params["wo"]
    return x + jax.nn.gelu(x @ params["w1"]) @ params["w2"]


def init_block(key, C):
    ks = jax.random.split(key, 6)
    shapes = dict(wq=(C, C), wk=(C, C), wv=(C, C), wo=(C, C), w1=(C, 4 * C), w2=(4 * C, C))
    return {n: jax.random.normal(k, s) * s[0] ** -0.5 for k, (n, s) in zip(ks, shapes.items())}


if __name__ == "__main__":
    key = jax.random.PRNGKey(0)
    p = init_block(key, 32)
    x = jax.random.normal(key, (1, 642, 32))
    print(apply_block(p, x, None, 4).shape)
