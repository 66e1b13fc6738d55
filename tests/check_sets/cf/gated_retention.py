"""Gated multi-scale retention (RetNet), functional JAX port.

Parameters live in a plain dict.  For head h with decay g_h = 1 - 2^(-5-h)

    Ret(x)[n] = sum_{m<=n} g_h^(n-m) (q_n . k_m / sqrt(d)) v_m

which, by design, is not a softmax: weights are decayed products and are not
normalised.  The heads are then RMS-normalised one by one, gated by swish(x Wg)
and projected.  This port leaves out the xPos rotation of the paper.

``gated_retention`` is the parallel form; ``retention_step`` is the recurrent
form with a state of shape (B, H, d, d) and yields the same numbers.
"""
from __future__ import annotations

import jax
import jax.numpy as jnp


def init_params(key, dim: int = 32, heads: int = 4) -> dict:
    names = ("q", "k", "v", "g", "o")
    keys = jax.random.split(key, len(names))
    return {n: jax.random.normal(kk, (dim, dim)) * dim ** -0.5
            for n, kk in zip(names, keys)} | {"heads": heads}


def _decays(heads: int):
    return 1.0 - 2.0 ** (-5.0 - jnp.arange(heads, dtype=jnp.float32))


def _heads(x, n):
    return x.reshape(*x.shape[:-1], n, x.shape[-1] // n)


def _finish(params, x, ret):
    """ret: (..., H, d) -> (..., dim)"""
    ret = ret * jax.lax.rsqrt(jnp.mean(ret ** 2, axis=-1, keepdims=True) + 1e-6)
    gate = jax.nn.silu(x @ params["g"])
    return (gate * ret.reshape(x.shape)) @ params["o"]


def gated_retention(params: dict, x: jax.Array) -> jax.Array:
    """x: (B, T, dim) -> (B, T, dim)"""
    H = params["heads"]
    q, k, v = (_heads(x @ params[n], H) for n in "qkv")   # (B, T, H, d)
    k = k * k.shape[-1] ** -0.5

    t = jnp.arange(x.shape[1])
    dist = t[:, None] - t[None, :]
    powers = _decays(H)[:, None, None] ** jnp.maximum(dist, 0)
    D = jnp.where(dist >= 0, powers, 0.0)                  # (H, T, T)

    ret = jnp.einsum("bnhd,bmhd,hnm,bmhe->bnhe", q, k, D, v)
    return _finish(params, x, ret)


def retention_step(params: dict, x: jax.Array, state: jax.Array):
    """x: (B, dim), state: (B, H, d, d) -> output (B, dim), new state"""
    H = params["heads"]
    q, k, v = (_heads(x @ params[n], H) for n in "qkv")   # (B, H, d)
    k = k * k.shape[-1] ** -0.5
    state = _decays(H)[None, :, None, None] * state + k[..., :, None] * v[..., None, :]
    ret = jnp.einsum("bhd,bhde->bhe", q, state)
    return _finish(params, x, ret), state


if __name__ == "__main__":
    p = init_params(jax.random.PRNGKey(0))
    x = jax.random.normal(jax.random.PRNGKey(1), (2, 6, 32))
    full = gated_retention(p, x)
    s = jnp.zeros((2, 4, 8, 8))
    for i in range(6):
        y, s = retention_step(p, x[:, i], s)
    print(float(jnp.abs(full[:, -1] - y).max()))
