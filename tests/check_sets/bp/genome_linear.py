"""Long-range DNA model: causal linear attention with positive random features (Performer).

Everything is O(L); a 100 kb window fits on one card.
"""
import math

import jax
import jax.numpy as jnp
from jax import random

BASES = "ACGTN"


def one_hot(seq):
    return jax.nn.one_hot(jnp.array([BASES.index(b) for b in seq]), len(BASES))


def orthogonal_features(key, m, d):
    """m random directions in d dimensions, orthogonal in blocks, with chi lengths."""
    blocks, done = [], 0
    while done < m:
        key, k1 = random.split(key)
        qm, _ = jnp.linalg.qr(random.normal(k1, (d, d)))
        blocks.append(qm.T[: min(d, m - done)])
        done += d
    key, k2 = random.split(key)
    length = jnp.linalg.norm(random.normal(k2, (m, d)), axis=-1)
    return jnp.concatenate(blocks) * length[:, None]


def positive_features(x, omega, stabiliser):
    """phi(x) = exp(w.x - |x|^2/2 - c) / sqrt(m)"""
    proj = x @ omega.T
    half = 0.5 * jnp.sum(x * x, axis=-1, keepdims=True)
    return jnp.exp(proj - half - stabiliser) / math.sqrt(omega.shape[0]) + 1e-6


def causal_performer(q, k, v, omega):
    """q, k, v [B, H, L, d], omega [m, d] -> [B, H, L, d].

    out_i = sum_{j<=i} phi(q_i).phi(k_j) v_j / sum_{j<=i} phi(q_i).phi(k_j)
    phi approximates the softmax kernel exp(q.k / sqrt(d)).
    """
    d = q.shape[-1]
    q, k = q * d ** -0.25, k * d ** -0.25
    c_q = jnp.max(q @ omega.T, axis=-1, keepdims=True)
    c_k = jnp.max(k @ omega.T, axis=(-1, -2), keepdims=True)
    q_feat = positive_features(q, omega, c_q)
    k_feat = positive_features(k, omega, c_k)

    def step(state, inputs):
        qf, kf, vv = inputs
        state = state + kf[..., :, None] * vv[..., None, :]
        return state, jnp.einsum("bhm,bhmd->bhd", qf, state)

    B, H, L, _ = q.shape
    init = jnp.zeros((B, H, omega.shape[0], v.shape[-1]), v.dtype)
    time_major = lambda t: jnp.moveaxis(t, 2, 0)
    _, num = jax.lax.scan(step, init, (time_major(q_feat), time_major(k_feat), time_major(v)))
    num = jnp.moveaxis(num, 0, 2)
    den = jnp.einsum("bhlm,bhm->bhl", q_feat, k_feat.sum(axis=2))
    return num / den[..., None]


def init_params(key, d_model=32, heads=4):
    ks = random.split(key, 5)
    w = lambda k, a, b: random.normal(k, (a, b)) / math.sqrt(a)
    return {"embed": w(ks[0], len(BASES), d_model), "qkv": w(ks[1], d_model, 3 * d_model),
            "out": w(ks[2], d_model, d_model), "head": w(ks[3], d_model, len(BASES)), "omega_key": ks[4]}


def next_base_logits(params, x, heads=4, m=32):
    """x [B, L, 5] one-hot"""
    h = x @ params["embed"]
    B, L, D = h.shape
    q, k, v = jnp.split(h @ params["qkv"], 3, axis=-1)
    sp = lambda t: t.reshape(B, L, heads, D // heads).transpose(0, 2, 1, 3)
    omega = orthogonal_features(params["omega_key"], m, D // heads)
    y = causal_performer(sp(q), sp(k), sp(v), omega).transpose(0, 2, 1, 3).reshape(B, L, D)
    return (h + y @ params["out"]) @ params["head"]
