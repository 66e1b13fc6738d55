"""Moth identification with a specimen drawer.

The drawer (NumPy, memory-mapped in the museum) is searched for the K best matching
specimens of each photo; the attention proper is then restricted to these K, in JAX, so
that it is differentiable in the photo encoder.  Attention over the K best of exact
scores is softmax over the drawer with everything else removed.
"""
import jax
import jax.numpy as jnp
import numpy as np


class Drawer:
    """keys (n, d) and one-hot or soft labels (n, s)."""

    def __init__(self, keys, labels, withdrawn=()):
        self.keys = np.asarray(keys, np.float32)
        self.labels = np.asarray(labels, np.float32)
        self.lent = np.zeros(len(self.keys), bool)
        self.lent[list(withdrawn)] = True

    def best(self, q, K):
        """indices (B, K) of the specimens with the largest inner product"""
        s = np.asarray(q) @ self.keys.T
        s[:, self.lent] = -np.inf
        K = min(K, int((~self.lent).sum()))
        return np.argpartition(-s, K - 1, axis=1)[:, :K]


@jax.jit
def attend(q, k, v, log_temp):
    """q (B, d), k (B, K, d), v (B, K, s): softmax(q.k * exp(log_temp) / sqrt(d)) v"""
    s = jnp.einsum("bd,bkd->bk", q, k) * jnp.exp(log_temp) / jnp.sqrt(q.shape[-1])
    return jnp.einsum("bk,bks->bs", jax.nn.softmax(s, axis=-1), v)


def identify(q, drawer, K=8, log_temp=0.0):
    """q (B, d) photo embeddings -> species shares (B, s)"""
    idx = drawer.best(q, K)
    return attend(jnp.asarray(q), jnp.asarray(drawer.keys[idx]), jnp.asarray(drawer.labels[idx]), log_temp)


def encode(w, photo):
    return jnp.tanh(photo @ w["a"]) @ w["b"]


def loss(w, photo, species, drawer, K):
    q = encode(w, photo)
    idx = drawer.best(jax.lax.stop_gradient(q), K)
    p = attend(q, jnp.asarray(drawer.keys[idx]), jnp.asarray(drawer.labels[idx]), w["log_temp"])
    return -jnp.log(p[jnp.arange(len(species)), species] + 1e-6).mean()


if __name__ == "__main__":
    r = np.random.default_rng(0)
    D = Drawer(r.normal(size=(50, 6)), np.eye(5)[r.integers(0, 5, 50)], withdrawn=[3, 4])
    print(np.asarray(identify(r.normal(size=(2, 6)).astype("f4"), D)).round(2))
    w = {"a": r.normal(size=(9, 16)).astype("f4"), "b": r.normal(size=(16, 6)).astype("f4"), "log_temp": 0.0}
    g = jax.grad(loss)(w, r.normal(size=(4, 9)).astype("f4"), np.array([0, 1, 2, 3]), D, 8)
    print(jax.tree_util.tree_map(jnp.shape, g))
