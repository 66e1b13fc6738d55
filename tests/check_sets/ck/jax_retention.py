"""Retentive Network (Sun et al. 2023): multi-scale retention, parallel form, in JAX.

Retention(X) = (Q K^T * D) V with D[n, m] = gamma^(n-m) for n >= m, else 0.
There is no softmax; a group norm over each head follows, then the swish gate.
"""
import jax
import jax.numpy as jnp


def decay_mask(n_heads, length):
    gamma = 1.0 - 2.0 ** (-5.0 - jnp.arange(n_heads))
    dist = jnp.arange(length)[:, None] - jnp.arange(length)[None, :]
    power = gamma[:, None, None] ** jnp.maximum(dist, 0)
    return jnp.where(dist >= 0, power, 0.0)


def retention(q, k, v):
    """q, k (B, H, T, d), v (B, H, T, e) -> (B, H, T, e). Keys are scaled by d ** -0.5."""
    d = q.shape[-1]
    k = k * d ** -0.5
    D = decay_mask(q.shape[1], q.shape[2])
    return jnp.einsum("bhnm,bhme->bhne", jnp.einsum("bhnd,bhmd->bhnm", q, k) * D, v)


def init_params(key, dim=32):
    names = ("wq", "wk", "wv", "wg", "wo")
    return {n: jax.random.normal(k, (dim, dim)) * dim ** -0.5 for n, k in zip(names, jax.random.split(key, 5))}


def multi_scale_retention(params, x, n_heads=4):
    """x (B, T, dim) -> (B, T, dim)"""
    B, T, C = x.shape

    def heads(w):
        return (x @ w).reshape(B, T, n_heads, C // n_heads).swapaxes(1, 2)

    y = retention(heads(params["wq"]), heads(params["wk"]), heads(params["wv"]))
    mu, var = y.mean(-1, keepdims=True), y.var(-1, keepdims=True)
    y = (y - mu) * jax.lax.rsqrt(var + 1e-5)
    y = y.swapaxes(1, 2).reshape(B, T, C)
    return (jax.nn.silu(x @ params["wg"]) * y) @ params["wo"]
