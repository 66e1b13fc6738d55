"""Sliding-window self attention in plain JAX (sensor logs of wind turbines).

Causal.  `window` counts the current step: with window=3 step t sees t-2, t-1, t.
Params is a dict of matrices, see `init_params`.
"""
from functools import partial

import jax
import jax.numpy as jnp


def init_params(key, dim=32):
    names = ("wq", "wk", "wv", "wo")
    keys = jax.random.split(key, len(names))
    return {n: jax.random.normal(k, (dim, dim)) * dim ** -0.5 for n, k in zip(names, keys)}


def _one_head(q, k, v, window):
    """q, k, v: [L, d] of one head of one series"""
    L, d = q.shape
    logits = (q @ k.T) / jnp.sqrt(d)
    t = jnp.arange(L)
    lag = t[:, None] - t[None, :]
    ok = (lag >= 0) & (lag < window)
    logits = jnp.where(ok, logits, -jnp.inf)
    return jax.nn.softmax(logits, axis=-1) @ v


@partial(jax.jit, static_argnames=("num_heads", "window"))
def window_attention(params, x, num_heads=4, window=3):
    """x: [B, L, dim] -> [B, L, dim]"""
    B, L, D = x.shape
    d = D // num_heads

    def split(w):
        return (x @ w).reshape(B, L, num_heads, d).transpose(0, 2, 1, 3)

    q, k, v = split(params["wq"]), split(params["wk"]), split(params["wv"])
    head = partial(_one_head, window=window)
    y = jax.vmap(jax.vmap(head))(q, k, v)              # [B, H, L, d]
    y = y.transpose(0, 2, 1, 3).reshape(B, L, D)
    return y @ params["wo"]


def demo():
    p = init_params(jax.random.PRNGKey(0))
    x = jax.random.normal(jax.random.PRNGKey(1), (2, 10, 32))
    y = window_attention(p, x)
    # a change at step 2 must be visible in steps 2, 3, 4 only
    z = window_attention(p, x.at[:, 2].add(1.0))
    return jnp.abs(y - z).max(axis=(0, 2))


if __name__ == "__main__":
    print(demo())
