"""Memory-efficient attention for long documents (after Rabe & Staats, 2021).

Keys and values are consumed chunk by chunk in a scan with a running maximum, so
only [heads, Lq, chunk] scores exist at a time.  Any length is accepted.  Equals
softmax(q k^T / sqrt(d)) v, bidirectional.
"""
import functools

import jax
import jax.numpy as jnp
from jax import lax


def _pad_to_multiple(x, m):
    rest = -x.shape[0] % m
    return jnp.pad(x, ((0, rest), (0, 0), (0, 0)))


@functools.partial(jax.jit, static_argnames=("chunk",))
def chunked_attention(q, k, v, chunk=4):
    """q [Lq, H, d], k [Lk, H, d], v [Lk, H, e] -> [Lq, H, e]"""
    lq, h, d = q.shape
    q = q / jnp.sqrt(d).astype(q.dtype)
    k = _pad_to_multiple(k, chunk)
    v = _pad_to_multiple(v, chunk)
    ks = k.reshape(-1, chunk, h, d)
    vs = v.reshape(-1, chunk, h, v.shape[-1])

    def body(carry, kv):
        acc, den, top = carry
        kc, vc = kv
        s = jnp.einsum("qhd,khd->hqk", q, kc)
        new_top = jnp.maximum(top, s.max(-1))
        p = jnp.exp(s - new_top[..., None])
        fix = jnp.exp(top - new_top)
        acc = acc * fix[..., None] + jnp.einsum("hqk,khe->hqe", p, vc)
        den = den * fix + p.sum(-1)
        return (acc, den, new_top), None

    start = (
        jnp.zeros((h, lq, v.shape[-1]), q.dtype),
        jnp.zeros((h, lq), q.dtype),
        jnp.full((h, lq), -jnp.inf, q.dtype),
    )
    (acc, den, _), _ = lax.scan(body, start, (ks, vs))
    return jnp.swapaxes(acc / den[..., None], 0, 1)


def encoder_layer(params, x, heads, chunk=64):
    """x [L, D]"""
    n, d = x.shape
    split = lambda w: (x @ w).reshape(n, heads, d // heads)
    y = chunked_attention(split(params["q"]), split(params["k"]), split(params["v"]), chunk=chunk)
    x = x + y.reshape(n, d) @ params["o"]
    return x + jax.nn.gelu(x @ params["up"]) @ params["down"]


def init_layer(rng, d):
    shapes = {"q": (d, d), "k": (d, d), "v": (d, d), "o": (d, d), "up": (d, 4 * d), "down": (4 * d, d)}
    keys = jax.random.split(rng, len(shapes))
    return {n: jax.random.normal(r, s) * s[0] ** -0.5 for r, (n, s) in zip(keys, shapes.items())}


if __name__ == "__main__":
    p = init_layer(jax.random.PRNGKey(0), 32)
    print(encoder_layer(p, jnp.ones((100, 32)), 4).shape)
