"""ALiBi attention in JAX, for any number of heads (Press et al., ICLR 2022)."""
import math
from functools import partial

import jax
import jax.numpy as jnp


def slopes(n):
    """Slopes of the reference implementation.

    n a power of two: 2^(-8/n), 2^(-16/n), ..., 2^-8.
    otherwise, with m the next smaller power of two: slopes(m) followed by the
    first n - m of every second entry of slopes(2m).
    """
    def geometric(m):
        return [2.0 ** (-8.0 * (i + 1) / m) for i in range(m)]

    m = 2 ** math.floor(math.log2(n))
    return geometric(n) if m == n else geometric(m) + geometric(2 * m)[0::2][: n - m]


@partial(jax.jit, static_argnames=("scale",))
def alibi_attention(q, k, v, scale=None):
    """q (B, H, Lq, d); k, v (B, H, Lk, d) with Lk >= Lq; result (B, H, Lq, d).

    The queries are the last Lq of the Lk positions.  Query at position i sees keys
    0..i; a key that lies t positions back loses slope_h * t.
    ``scale`` defaults to 1/sqrt(d).
    """
    B, H, Lq, d = q.shape
    Lk = k.shape[2]
    if scale is None:
        scale = d ** -0.5
    back = (jnp.arange(Lq) + (Lk - Lq))[:, None] - jnp.arange(Lk)[None, :]
    bias = -jnp.asarray(slopes(H), jnp.float32)[:, None, None] * back
    s = jnp.einsum("bhqd,bhkd->bhqk", q, k, preferred_element_type=jnp.float32) * scale + bias
    s = jnp.where(back >= 0, s, -jnp.inf)
    return jnp.einsum("bhqk,bhkd->bhqd", jax.nn.softmax(s, axis=-1).astype(v.dtype), v)
