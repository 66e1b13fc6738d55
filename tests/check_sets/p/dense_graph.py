import jax
import jax.numpy as jnp


class DenseGraphAttention:
    """Dot-product attention along the edges of a graph.  x (n, dim), adj (n, n) bool, adj[i, j]: i listens to j.
    A node that listens to nobody gets a vector of zeros."""

    def __init__(self, dim=6, seed=0):
        a, b, c = jax.random.split(jax.random.PRNGKey(seed), 3)
        self.wq = jax.random.normal(a, (dim, dim)) / dim**0.5
        self.wk = jax.random.normal(b, (dim, dim)) / dim**0.5
        self.wv = jax.random.normal(c, (dim, dim)) / dim**0.5

    def __call__(self, x, adj):
        s = (x @ self.wq) @ (x @ self.wk).T / jnp.sqrt(x.shape[1])
        s = jnp.where(adj, s, -jnp.inf)
        p = jax.nn.softmax(s, axis=1)
        return p @ (x @ self.wv)
