import math

import jax
import jax.numpy as jnp


def slopes(n):
    """Slopes of the ALiBi paper, any number of heads."""
    def pow2(m):
        start = 2.0 ** (-8.0 / m)
        return [start ** (i + 1) for i in range(m)]
    if math.log2(n).is_integer():
        return pow2(n)
    c = 2 ** math.floor(math.log2(n))
    return pow2(c) + pow2(2 * c)[0::2][: n - c]


def init(key, dim):
    ks = jax.random.split(key, 4)
    return {n: jax.random.normal(k, (dim, dim)) / jnp.sqrt(dim) for n, k in zip("qkvo", ks)}


def melody_layer(params, notes, n_head=6):
    """One causal layer over note embeddings.

    notes (B, T, dim) -> (B, T, dim); linear distance penalty instead of positions.
    """
    B, T, dim = notes.shape
    d = dim // n_head

    def heads(name):
        return (notes @ params[name]).reshape(B, T, n_head, d)

    q, k, v = heads("q"), heads("k"), heads("v")
    s = jnp.einsum("bihd,bjhd->bhij", q, k) / jnp.sqrt(d)
    i = jnp.arange(T)
    back = i[:, None] - i[None, :]
    s = s - jnp.asarray(slopes(n_head))[:, None, None] * back
    s = jnp.where(back >= 0, s, -jnp.inf)
    w = jax.nn.softmax(s, axis=-1)
    y = jnp.einsum("bhij,bjhd->bihd", w, v).reshape(B, T, dim)
    return notes + y @ params["o"]
