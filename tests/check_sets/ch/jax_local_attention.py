"""Causal sliding window attention in JAX."""
from functools import partial

import jax
import jax.numpy as jnp


@partial(jax.jit, static_argnames="window")
def local_attention(q, k, v, window=4):
    """Sliding-window causal attention.

    Args:
      q: [batch, len, heads, head_dim] queries.
      k: [batch, len, heads, head_dim] keys.
      v: [batch, len, heads, head_dim] values.
      window: number of keys each query may use, itself included, i.e. query i
        attends to keys i - window + 1 .. i.

    Returns:
      [batch, len, heads, head_dim]
    """
    head_dim = q.shape[-1]
    logits = jnp.einsum("bqhd,bkhd->bhqk", q, k) * head_dim ** -0.5

    i = jnp.arange(q.shape[1])[:, None]
    j = jnp.arange(k.shape[1])[None, :]
    allowed = (j <= i) & (j > i - window)
    logits = jnp.where(allowed, logits, jnp.finfo(logits.dtype).min)

    weights = jax.nn.softmax(logits.astype(jnp.float32), axis=-1).astype(v.dtype)
    return jnp.einsum("bhqk,bkhd->bqhd", weights, v)


def main():
    keys = jax.random.split(jax.random.PRNGKey(0), 3)
    q, k, v = (jax.random.normal(key, (2, 16, 4, 8)) for key in keys)
    print(local_attention(q, k, v, window=5).shape)


if __name__ == "__main__":
    main()
