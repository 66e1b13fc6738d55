"""Causal multi-head attention with ALiBi (Press et al.) as pure JAX functions."""
import math

import jax
import jax.numpy as jnp


def init_params(key, dim, heads):
    ks = jax.random.split(key, 4)
    s = dim ** -0.5
    names = ("wq", "wk", "wv", "wo")
    return {n: s * jax.random.normal(k, (dim, dim)) for n, k in zip(names, ks)}


def alibi_slopes(n):
    """The authors' slopes, also for head counts that are no power of two."""
    def power_of_two(m):
        start = 2.0 ** (-8.0 / m)
        return [start ** (i + 1) for i in range(m)]

    if math.log2(n).is_integer():
        return power_of_two(n)
    near = 2 ** int(math.floor(math.log2(n)))
    return power_of_two(near) + power_of_two(2 * near)[0::2][: n - near]


def alibi_attention(params, x, heads):
    """x: (B, L, dim) -> (B, L, dim). Position i sees j <= i, with -slope * (i - j) added."""
    B, L, D = x.shape
    d = D // heads
    q = (x @ params["wq"]).reshape(B, L, heads, d)
    k = (x @ params["wk"]).reshape(B, L, heads, d)
    v = (x @ params["wv"]).reshape(B, L, heads, d)
    scores = jnp.einsum("bihd,bjhd->bhij", q, k) / math.sqrt(d)
    i = jnp.arange(L)[:, None]
    j = jnp.arange(L)[None, :]
    slopes = jnp.array(alibi_slopes(heads))[:, None, None]
    scores = scores - slopes * (i - j)
    scores = jnp.where(j <= i, scores, -jnp.inf)
    w = jax.nn.softmax(scores, axis=-1)
    y = jnp.einsum("bhij,bjhd->bihd", w, v).reshape(B, L, D)
    return y @ params["wo"]
