"""Cosine window attention of Swin V2 (Liu et al. 2022), pure JAX functions.

cos_window(params, x, heads)
    x       (n_windows, L, C), the L tokens of each window
    params  "wqkv" (C, 3C), columns = all queries, all keys, all values; "bqv" (2C,) biases of
            q and v (k has none); "log_tau" (heads,); "bias" (heads, L, L); "wo" (C, C); "bo" (C,)
    ->      (n_windows, L, C)

    sim(i, j) = cos(q_i, k_j) * min(exp(log_tau_h), 100) + bias[h, i, j]
with cos(q_i, k_j) = q_i.k_j / (|q_i| |k_j|) over the C/heads channels of head h; softmax over j.
There is no 1/sqrt(d), the learned temperature takes its place.
"""
import jax
import jax.numpy as jnp


def unit(t):
    return t / jnp.maximum(jnp.linalg.norm(t, axis=1, keepdims=True), 1e-6)


def cos_window(params, x, heads):
    n, L, C = x.shape
    qkv = x @ params["wqkv"]
    bq, bv = jnp.split(params["bqv"], 2)
    q, k, v = jnp.split(qkv, 3, axis=-1)
    q, v = q + bq, v + bv
    q, k, v = (t.reshape(n, L, heads, C // heads) for t in (q, k, v))
    tau = jnp.minimum(jnp.exp(params["log_tau"]), 100.0)
    sim = jnp.einsum("nihd,njhd->nhij", unit(q), unit(k)) * tau[:, None, None]
    sim = sim + params["bias"]
    y = jnp.einsum("nhij,njhd->nihd", jax.nn.softmax(sim, axis=-1), v)
    return y.reshape(n, L, C) @ params["wo"] + params["bo"]
