"""Day-ahead electricity load with a causal linear transformer, in JAX (no flax).

Params are nested dicts, all functions pure. The mixing layer is Katharopoulos et
al. 2020: phi(x) = elu(x) + 1 in place of the exponential, so that a meter can be
replayed for years with a state of fixed size (S, z) per head.
"""
import functools

import jax
import jax.numpy as jnp
from jax import lax, random

HOURS = 24


def init(key, n_feat, d_model=32, n_heads=4):
    ks = random.split(key, 6)
    g = lambda k, i, o: random.normal(k, (i, o)) * (i ** -0.5)
    return {
        "embed": g(ks[0], n_feat, d_model),
        "wq": g(ks[1], d_model, d_model),
        "wk": g(ks[2], d_model, d_model),
        "wv": g(ks[3], d_model, d_model),
        "wo": g(ks[4], d_model, d_model),
        "head": g(ks[5], d_model, HOURS),
    }


def phi(x):
    return jax.nn.elu(x) + 1.0


def _step(state, qkv):
    S, z = state
    q, k, v = qkv                                # each [H, d], for one hour
    S = S + k[:, :, None] * v[:, None, :]
    z = z + k
    num = jnp.einsum("hd,hde->he", q, S)
    den = jnp.einsum("hd,hd->h", q, z)
    return (S, z), num / (den[:, None] + 1e-9)


def linear_mixing(q, k, v):
    """q, k, v [T, H, d] -> [T, H, d]; row t uses rows 0..t."""
    T, H, d = q.shape
    state = (jnp.zeros((H, d, v.shape[-1])), jnp.zeros((H, d)))
    _, y = lax.scan(_step, state, (phi(q), phi(k), v))
    return y


@functools.partial(jax.jit, static_argnames="n_heads")
def forecast(params, x, n_heads=4):
    """x [T, n_feat] -> [T, 24], the next day seen from each hour."""
    h = x @ params["embed"]
    T, C = h.shape
    split = lambda w: (h @ w).reshape(T, n_heads, C // n_heads)
    y = linear_mixing(split(params["wq"]), split(params["wk"]), split(params["wv"]))
    h = h + y.reshape(T, C) @ params["wo"]
    return h @ params["head"]


def mape(pred, truth, floor=1.0):
    return 100.0 * jnp.mean(jnp.abs(pred - truth) / jnp.maximum(jnp.abs(truth), floor))


if __name__ == "__main__":
    p = init(random.PRNGKey(0), 5)
    print(forecast(p, jnp.ones((48, 5))).shape)
