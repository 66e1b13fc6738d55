"""Picking bed echoes in ice-penetrating radar: chunked multi-query attention in JAX.

A flight line has tens of thousands of traces, so keys are scanned in chunks with an
online softmax.  Logits are soft-capped (cap * tanh(x / cap)) *before* any masking.
"""
from functools import partial

import jax
import jax.numpy as jnp
from jax import lax

NEG = -1e30


@partial(jax.jit, static_argnames=("chunk", "cap"))
def chunked_mqa(q, k, v, n_valid, chunk=16, cap=30.0):
    """Multi-query attention: all H query heads share one key/value head.

    q: [T, H, D], k, v: [S, D], n_valid: scalar >= 1; keys n_valid.. are padding.
    Not causal.  Returns [T, H, D] in the dtype of q.
    """
    T, H, D = q.shape
    S = k.shape[0]
    pad = -S % chunk
    kc = jnp.pad(k, ((0, pad), (0, 0))).reshape(-1, chunk, D).astype(jnp.float32)
    vc = jnp.pad(v, ((0, pad), (0, 0))).reshape(-1, chunk, D).astype(jnp.float32)
    starts = jnp.arange(kc.shape[0]) * chunk
    qf = q.astype(jnp.float32) * D ** -0.5

    def body(carry, piece):
        m, l, acc = carry
        kb, vb, start = piece
        s = jnp.einsum("thd,cd->thc", qf, kb)
        s = cap * jnp.tanh(s / cap)
        live = start + jnp.arange(chunk) < jnp.minimum(n_valid, S)
        s = jnp.where(live, s, NEG)
        m_new = jnp.maximum(m, s.max(-1))
        p = jnp.where(live, jnp.exp(s - m_new[..., None]), 0.0)
        fix = jnp.exp(m - m_new)
        l = l * fix + p.sum(-1)
        acc = acc * fix[..., None] + jnp.einsum("thc,cd->thd", p, vb)
        return (m_new, l, acc), None

    init = (jnp.full((T, H), NEG), jnp.zeros((T, H)), jnp.zeros((T, H, D)))
    (m, l, acc), _ = lax.scan(body, init, (kc, vc, starts))
    return (acc / l[..., None]).astype(q.dtype)


def init_picker(key, width=32, heads=4):
    ks = jax.random.split(key, 5)
    d = width // heads
    n = lambda k, *s: jax.random.normal(k, s) * s[0] ** -0.5
    return {"wq": n(ks[0], width, heads, d), "wk": n(ks[1], width, d), "wv": n(ks[2], width, d),
            "wo": n(ks[3], width, width), "pick": n(ks[4], width, 1)}


def pick_bed(params, traces, n_valid):
    """traces: [T, width] features -> bed depth logit for every trace."""
    q = jnp.einsum("tw,whd->thd", traces, params["wq"])
    y = chunked_mqa(q, traces @ params["wk"], traces @ params["wv"], n_valid)
    h = traces + y.reshape(len(traces), -1) @ params["wo"]
    return (h @ params["pick"])[:, 0]


if __name__ == "__main__":
    prm = init_picker(jax.random.PRNGKey(0))
    print(pick_bed(prm, jax.random.normal(jax.random.PRNGKey(1), (40, 32)), 33).shape)
