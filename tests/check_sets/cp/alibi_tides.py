"""ALiBi attention for tide-gauge sequences (JAX).

Press et al. 2022: no positional embedding, head h gets -m_h * (i - j) added to
its logits, with the geometric slopes of the paper (for a head count that is not
a power of two, the paper's interleaving of the next power is used).
"""
import math
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np


def slopes(n: int) -> np.ndarray:
    def pow2(m):
        start = 2.0 ** (-8.0 / m)
        return [start ** (i + 1) for i in range(m)]

    if n & (n - 1) == 0:
        return np.array(pow2(n))
    m = 2 ** int(math.floor(math.log2(n)))
    return np.array(pow2(m) + pow2(2 * m)[0::2][: n - m])


@partial(jax.jit, static_argnames=("causal",))
def alibi_attention(q, k, v, causal: bool = True):
    """q: [B, H, Lq, D], k, v: [B, H, Lk, D] -> [B, H, Lq, D]

    The last query is aligned with the last key (Lk >= Lq, so the function can
    be used with cached keys). With causal=False the penalty is symmetric,
    -m_h * |i - j|.
    """
    n_heads, lq, d = q.shape[1:]
    lk = k.shape[2]
    logits = jnp.einsum("bhqd,bhkd->bhqk", q, k) / jnp.sqrt(d).astype(q.dtype)

    i = jnp.arange(lq)[:, None] + (lk - lq)
    j = jnp.arange(lk)[None, :]
    dist = jnp.abs(i - j).astype(q.dtype)
    m = jnp.asarray(slopes(n_heads), dtype=q.dtype)[:, None, None]
    logits = logits - m * dist
    if causal:
        logits = jnp.where(j <= i, logits, -jnp.inf)
    return jnp.einsum("bhqk,bhkd->bhqd", jax.nn.softmax(logits, axis=-1), v)
