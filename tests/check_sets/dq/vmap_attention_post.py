"""Blog post code: "You only have to understand ONE query" (JAX).

We write attention for one query and a handful of keys. Everything else --
all queries, all heads, the batch -- is three calls of jax.vmap.
"""
import jax
import jax.numpy as jnp


def one_query(q, K, V, keep):
    """q (d,), K (n, d), V (n, d), keep (n,) bool: True = may be read."""
    logits = K @ q * jax.lax.rsqrt(jnp.float32(q.shape[0]))
    logits = jnp.where(keep, logits, -jnp.inf)
    return jax.nn.softmax(logits) @ V


# all queries share the keys
all_queries = jax.vmap(one_query, in_axes=(0, None, None, None))
# heads sit on axis 1 of (n, H, d); the mask is the same for each head
all_heads = jax.vmap(all_queries, in_axes=(1, 1, 1, None), out_axes=1)
# and the batch is axis 0 of everything
all_samples = jax.vmap(all_heads)


def self_attention(params, x, keep, n_heads):
    """Multi-head self-attention.

    params  : dict of (D, D) matrices "q", "k", "v", "o", used as x @ W
    x       : (B, N, D)
    keep    : (B, N) bool, True = real token, False = padding that no query may
              read. At least one True per sample.
    n_heads : D must be divisible by it; head h owns columns h*d ... (h+1)*d - 1
    returns : (B, N, D); each head uses softmax(q k^T / sqrt(d)), d = D / n_heads
    """
    B, N, D = x.shape

    def heads(name):
        return (x @ params[name]).reshape(B, N, n_heads, D // n_heads)

    y = all_samples(heads("q"), heads("k"), heads("v"), keep)
    return y.reshape(B, N, D) @ params["o"]


if __name__ == "__main__":
    ks = jax.random.split(jax.random.PRNGKey(0), 5)
    P = {n: jax.random.normal(k, (8, 8)) for n, k in zip("qkvo", ks)}
    X = jax.random.normal(ks[4], (2, 5, 8))
    print(self_attention(P, X, jnp.ones((2, 5), bool), 2).shape)
