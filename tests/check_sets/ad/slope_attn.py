import jax
import jax.numpy as jnp
import numpy as np


def slopes(n):
    """head specific slopes of Press et al. for n heads, n a power of two"""
    return np.power(2.0, -8.0 * np.arange(n) / n)


def alibi(n, T):
    i = np.arange(T)[:, None]
    j = np.arange(T)[None, :]
    distance = np.tril(i - j)
    return jnp.asarray(slopes(n)[:, None, None] * distance, dtype=jnp.float32)


class ALiBiAttention:
    """Causal attention with linear biases (train short, test long).

    x: [B, T, C]. Parameters live in a flat dict.
    """

    def __init__(self, C, n):
        self.C, self.n, self.d = C, n, C // n

    def init(self, rng):
        a, b = jax.random.split(rng)
        init = jax.nn.initializers.lecun_normal()
        return {"in": init(a, (self.C, 3 * self.C)), "out": init(b, (self.C, self.C))}

    def apply(self, params, x):
        B, T, C = x.shape
        q, k, v = jnp.split(x @ params["in"], 3, axis=-1)
        q = q.reshape(B, T, self.n, self.d)
        k = k.reshape(B, T, self.n, self.d)
        v = v.reshape(B, T, self.n, self.d)
        s = jnp.einsum("bihd,bjhd->bhij", q, k) / np.sqrt(self.d)
        s = s + alibi(self.n, T)
        s = jnp.where(np.tri(T, dtype=bool), s, -1e30)
        w = jax.nn.softmax(s, -1)
        return jnp.einsum("bhij,bjhd->bihd", w, v).reshape(B, T, C) @ params["out"]
