"""Relational core for the StarCraft mini-games agent: self-attention over entities."""
import jax
import jax.numpy as jnp


def glorot(key, n, m):
    return jax.random.normal(key, (n, m)) * jnp.sqrt(2.0 / (n + m))


def init_relational(key, dim, heads):
    ks = jax.random.split(key, 6)
    return {
        "query": glorot(ks[0], dim, dim),
        "key": glorot(ks[1], dim, dim),
        "value": glorot(ks[2], dim, dim),
        "merge": glorot(ks[3], dim, dim),
        "mlp": (glorot(ks[4], dim, 2 * dim), glorot(ks[5], 2 * dim, dim)),
    }


def _head(q, k, v, alive):
    s = q @ k.T / q.shape[-1]
    s = s * alive[None, :]
    w = jax.nn.softmax(s, axis=1)
    return w @ v


def relational(params, entities, alive, heads):
    """entities (n, dim), alive (n,) 1.0 for units on the map and 0.0 for empty slots.

    Batch with vmap. Rows of empty slots are returned as they came in.
    """
    n, dim = entities.shape

    def split(w):
        return (entities @ w).reshape(n, heads, dim // heads).swapaxes(0, 1)

    q, k, v = split(params["query"]), split(params["key"]), split(params["value"])
    o = jax.vmap(_head, in_axes=(0, 0, 0, None))(q, k, v, alive)
    o = o.reshape(n, dim) @ params["merge"]
    x = entities + o
    a, b = params["mlp"]
    x = x + jax.nn.relu(x @ a) @ b
    return jnp.where(alive[:, None] > 0, x, entities)
