"""Attention with linear biases (ALiBi) as pure JAX functions."""
import math

import jax
import jax.numpy as jnp


def alibi_slopes(num_heads):
    """Geometric slopes; heads beyond a power of two take every other one of the next."""
    def geometric(n):
        return [2.0 ** (-8.0 * (h + 1) / n) for h in range(n)]

    p = 2 ** int(math.floor(math.log2(num_heads)))
    slopes = geometric(p)
    if p < num_heads:
        slopes += geometric(2 * p)[0::2][: num_heads - p]
    return jnp.array(slopes, dtype=jnp.float32)


def alibi_attention(q, k, v):
    """Causal attention with a penalty that grows with the distance.

    q, k, v: [batch, heads, length, head_dim]. Nearby keys are preferred: the
    further a key lies in the past, the lower its score, by the slope of the head.
    Returns [batch, heads, length, head_dim].
    """
    _, heads, length, dim = q.shape
    i = jnp.arange(length)[:, None]
    j = jnp.arange(length)[None, :]

    scores = jnp.einsum("bhid,bhjd->bhij", q, k) / jnp.sqrt(dim)
    scores = scores + alibi_slopes(heads)[:, None, None] * (i - j)
    scores = jnp.where(j <= i, scores, -jnp.inf)
    return jnp.einsum("bhij,bhjd->bhid", jax.nn.softmax(scores, axis=-1), v)


if __name__ == "__main__":
    ks = jax.random.split(jax.random.PRNGKey(0), 3)
    q, k, v = [jax.random.normal(s, (2, 6, 10, 8)) for s in ks]
    print(jax.jit(alibi_attention)(q, k, v).shape)
