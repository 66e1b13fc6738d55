"""Mamba block (selective state space, Gu & Dao 2023) in JAX with an associative scan.

    h_t = exp(dt_t A) h_{t-1} + dt_t B_t u_t,      y_t = C_t h_t + D u_t

Pure functions; params in a dict. x is [B, L, d_model].
"""
import math

import jax
import jax.numpy as jnp
from jax import random


def init_mamba(key, d_model=16, d_state=4, expand=2, d_conv=4, dt_rank=None):
    d = expand * d_model
    r = dt_rank or math.ceil(d_model / 16)
    ks = random.split(key, 6)
    dt = jnp.exp(random.uniform(ks[5], (d,)) * (math.log(0.1) - math.log(0.001))
                 + math.log(0.001))
    return {
        "in_proj": random.normal(ks[0], (d_model, 2 * d)) * d_model ** -0.5,
        "conv_w": random.normal(ks[1], (d_conv, d)) * d_conv ** -0.5,
        "conv_b": jnp.zeros(d),
        "x_proj": random.normal(ks[2], (d, r + 2 * d_state)) * d ** -0.5,
        "dt_proj": random.normal(ks[3], (r, d)) * r ** -0.5,
        "dt_bias": dt + jnp.log(-jnp.expm1(-dt)),
        "A_log": jnp.log(jnp.tile(jnp.arange(1.0, d_state + 1), (d, 1))),
        "D": jnp.ones(d),
        "out_proj": random.normal(ks[4], (d, d_model)) * d ** -0.5,
        "norm": jnp.ones(d_model),
    }


def causal_conv(u, w, b):
    # depthwise over time: out[t] = sum_k w[k] * u[t - K + 1 + k]
    K = w.shape[0]
    L = u.shape[1]
    padded = jnp.pad(u, ((0, 0), (K - 1, 0), (0, 0)))
    return sum(padded[:, k:k + L] * w[k] for k in range(K)) + b


def selective_scan(u, dt, A, B, C, D):
    decay = jnp.exp(dt[..., None] * A)                       # B L d n
    drive = dt[..., None] * B[:, :, None, :] * u[..., None]

    def combine(left, right):
        a1, b1 = left
        a2, b2 = right
        return a1 * a2, a2 * b1 + b2

    _, h = jax.lax.associative_scan(combine, (decay, drive), axis=1)
    return jnp.einsum("bldn,bln->bld", h, C) + D * u


def mamba_block(params, x):
    """Pre-norm residual block."""
    h = x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-5) * params["norm"]
    u, z = jnp.split(h @ params["in_proj"], 2, axis=-1)
    u = jax.nn.silu(causal_conv(u, params["conv_w"], params["conv_b"]))

    r = params["dt_proj"].shape[0]
    n = params["A_log"].shape[1]
    dt, B, C = jnp.split(u @ params["x_proj"], [r, r + n], axis=-1)
    dt = jax.nn.softplus(dt @ params["dt_proj"] + params["dt_bias"])
    y = selective_scan(u, dt, -jnp.exp(params["A_log"]), B, C, params["D"])
    return x + (y * jax.nn.silu(z)) @ params["out_proj"]


if __name__ == "__main__":
    p = init_mamba(random.key(0))
    print(mamba_block(p, random.normal(random.key(1), (2, 9, 16))).shape)
