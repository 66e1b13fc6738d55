"""Grouped-query attention in JAX.

Query heads are grouped as usual: with n_q = 8 and n_kv = 2, heads 0-3 read kv head 0 and heads 4-7 read kv head 1
(so Llama/Mistral checkpoints can be loaded without any reordering).
"""
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp


class GQAParams(NamedTuple):
    wq: jax.Array  # (D, n_q * hd)
    wk: jax.Array  # (D, n_kv * hd)
    wv: jax.Array  # (D, n_kv * hd)
    wo: jax.Array  # (n_q * hd, D)


def init_gqa(key, dim=32, n_q=4, n_kv=2, hd=8):
    k1, k2, k3, k4 = jax.random.split(key, 4)
    init = jax.nn.initializers.glorot_normal()
    return GQAParams(
        init(k1, (dim, n_q * hd)), init(k2, (dim, n_kv * hd)),
        init(k3, (dim, n_kv * hd)), init(k4, (n_q * hd, dim)),
    )


def rms_norm(x, eps=1e-6):
    return x * jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + eps)


@partial(jax.jit, static_argnames=("n_q", "n_kv", "qk_norm"))
def gqa(params: GQAParams, x, n_q=4, n_kv=2, qk_norm=False):
    """x: (B, T, D), causal -> (B, T, D)"""
    B, T, _ = x.shape
    q = (x @ params.wq).reshape(B, T, n_q, -1)
    k = (x @ params.wk).reshape(B, T, n_kv, -1)
    v = (x @ params.wv).reshape(B, T, n_kv, -1)
    if qk_norm:
        q, k = rms_norm(q), rms_norm(k)

    rep = n_q // n_kv
    k = jnp.tile(k, (1, 1, rep, 1))
    v = jnp.tile(v, (1, 1, rep, 1))

    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / jnp.sqrt(q.shape[-1])
    causal = jnp.tril(jnp.ones((T, T), dtype=bool))
    scores = jnp.where(causal[None, None], scores, jnp.finfo(scores.dtype).min)
    probs = jax.nn.softmax(scores, axis=-1)
    out = jnp.einsum("bhqk,bkhd->bqhd", probs, v).reshape(B, T, -1)
    return out @ params.wo


if __name__ == "__main__":
    p = init_gqa(jax.random.PRNGKey(0))
    print(gqa(p, jnp.ones((2, 5, 32))).shape)
