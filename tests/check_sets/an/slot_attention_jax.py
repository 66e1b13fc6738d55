"""Slot Attention (Locatello et al. 2020), plain JAX.

As in algorithm 1 of the paper the slots compete for every input: the softmax runs over
the SLOTS, afterwards the weights of each slot are normalised over the inputs
(weighted mean).
"""
from typing import NamedTuple

import jax
import jax.numpy as jnp


class SlotParams(NamedTuple):
    wq: jax.Array
    wk: jax.Array
    wv: jax.Array
    mu: jax.Array
    log_sigma: jax.Array
    gru_x: jax.Array
    gru_h: jax.Array
    gru_b: jax.Array
    mlp1: jax.Array
    mlp2: jax.Array


def init(key, d_in, d_slot, hidden):
    ks = iter(jax.random.split(key, 9))

    def mat(a, b):
        return jax.random.normal(next(ks), (a, b)) * a ** -0.5

    return SlotParams(mat(d_slot, d_slot), mat(d_in, d_slot), mat(d_in, d_slot),
                      mat(1, d_slot), jnp.zeros((1, d_slot)), mat(d_slot, 3 * d_slot),
                      mat(d_slot, 3 * d_slot), jnp.zeros(3 * d_slot), mat(d_slot, hidden), mat(hidden, d_slot))


def norm(x):
    x = x - x.mean(-1, keepdims=True)
    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-5)


def gru(p, x, h):
    xr, xz, xn = jnp.split(x @ p.gru_x + p.gru_b, 3, -1)
    hr, hz, hn = jnp.split(h @ p.gru_h, 3, -1)
    r, z = jax.nn.sigmoid(xr + hr), jax.nn.sigmoid(xz + hz)
    return (1 - z) * jnp.tanh(xn + r * hn) + z * h


def slot_attention_step(p, slots, inputs, eps=1e-8):
    """slots (B, S, D), inputs (B, N, F) -> updates (B, S, D), masks (B, S, N)"""
    x = norm(inputs)
    k, v = x @ p.wk, x @ p.wv
    q = norm(slots) @ p.wq
    logits = jnp.einsum("bnd,bsd->bns", k, q) * q.shape[-1] ** -0.5
    masks = jax.nn.softmax(logits, axis=-1)
    w = masks + eps
    w = w / w.sum(axis=1, keepdims=True)
    updates = jnp.einsum("bns,bnd->bsd", w, v)
    return updates, masks.transpose(0, 2, 1)


def run(p, key, inputs, n_slots, iters=3):
    b = inputs.shape[0]
    noise = jax.random.normal(key, (b, n_slots, p.mu.shape[-1]))
    slots = p.mu + jnp.exp(p.log_sigma) * noise
    for _ in range(iters):
        up, masks = slot_attention_step(p, slots, inputs)
        slots = gru(p, up, slots)
        slots = slots + jax.nn.relu(norm(slots) @ p.mlp1) @ p.mlp2
    return slots, masks
