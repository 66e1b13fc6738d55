"""User tower: pools the click history with the candidate as query. JAX, no framework.

hist  [B, L, D]  item vectors
cand  [B, D]
pad   [B, L]     True where the slot is empty
"""
import jax
import jax.numpy as jnp
import numpy as np


class HistPool:
    def __init__(self, dim=16, att=12, seed=0):
        r = np.random.default_rng(seed)
        g = lambda a, b: jnp.asarray(r.normal(size=(a, b)) / a ** 0.5, jnp.float32)
        self.p = {"q": g(dim, att), "k": g(dim, att), "v": g(dim, dim)}

    def __call__(self, hist, cand, pad=None):
        """returns (user vector [B, D], weights [B, L])"""
        return pool(self.p, hist, cand, pad)


@jax.jit
def pool(p, hist, cand, pad=None):
    q = cand @ p["q"]
    k = hist @ p["k"]
    s = jnp.einsum("ba,bla->bl", q, k) * q.shape[-1] ** -0.5
    if pad is not None:
        s = jnp.where(pad, s, jnp.finfo(s.dtype).min)
    w = jax.nn.softmax(s, axis=1)
    return jnp.einsum("bl,bld->bd", w, hist @ p["v"]), w
