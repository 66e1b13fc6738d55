"""ALiBi attention in JAX, any number of heads, with or without a cache.

score[h, i, j] = q_i . k_j / sqrt(d) - slope[h] * (i - j)       for j <= i

i and j are absolute positions; the Lq queries are the newest of the Lk positions.
Slopes: for n a power of two, 2**(-8/n), 2**(-16/n), ... (n of them).  Otherwise
those of the next smaller power of two m, followed by every other slope of 2m until
n are there (as in the reference code by Press et al.).
"""
from functools import partial
import math

import jax
import jax.numpy as jnp


def alibi_slopes(n: int) -> list[float]:
    def power_of_two(m: int) -> list[float]:
        start = 2.0 ** (-8.0 / m)
        return [start ** (h + 1) for h in range(m)]

    if math.log2(n).is_integer():
        return power_of_two(n)
    m = 2 ** math.floor(math.log2(n))
    return power_of_two(m) + power_of_two(2 * m)[0::2][: n - m]


@partial(jax.jit, static_argnames=("n_heads",))
def alibi_attention(params, x, past=None, *, n_heads: int):
    """One layer.

    params: dict with "wq", "wk", "wv", "wo", each (D, D), applied as x @ w
    x:      (B, Lq, D)
    past:   None or (k, v), each (B, P, H, d)
    returns (y (B, Lq, D), (k, v)) where k, v now hold P + Lq tokens
    """
    B, Lq, D = x.shape
    d = D // n_heads
    split = lambda w: (x @ w).reshape(B, Lq, n_heads, d)
    q, k, v = split(params["wq"]), split(params["wk"]), split(params["wv"])
    if past is not None:
        k = jnp.concatenate([past[0], k], axis=1)
        v = jnp.concatenate([past[1], v], axis=1)
    Lk = k.shape[1]

    i = jnp.arange(Lk - Lq, Lk)[:, None]
    j = jnp.arange(Lk)[None, :]
    bias = -jnp.asarray(alibi_slopes(n_heads))[:, None, None] * (i - j)
    bias = jnp.where(j <= i, bias, -jnp.inf)
    logits = jnp.einsum("bihd,bjhd->bhij", q, k) / math.sqrt(d) + bias
    w = jax.nn.softmax(logits.astype(jnp.float32), axis=-1)
    y = jnp.einsum("bhij,bjhd->bihd", w.astype(v.dtype), v)
    return y.reshape(B, Lq, D) @ params["wo"], (k, v)
