"""Attention that never holds the [Lq, Lk] matrix (Rabe & Staats, 2021), with grouped KV heads.

Used by the long-context trainer: ``lax.map`` over blocks of queries, ``lax.scan`` over blocks
of keys. Everything is pure functions over a dict of parameters.
"""
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax


class AttnHP(NamedTuple):
    d_model: int = 64
    n_q: int = 8
    n_kv: int = 2
    q_block: int = 16
    k_block: int = 32

    @property
    def d_head(self):
        return self.d_model // self.n_q


def init_attn(rng, hp: AttnHP):
    ks = jax.random.split(rng, 4)
    s = hp.d_model ** -0.5
    kv = hp.n_kv * hp.d_head
    return {
        "wq": s * jax.random.normal(ks[0], (hp.d_model, hp.d_model)),
        "wk": s * jax.random.normal(ks[1], (hp.d_model, kv)),
        "wv": s * jax.random.normal(ks[2], (hp.d_model, kv)),
        "wo": s * jax.random.normal(ks[3], (hp.d_model, hp.d_model)),
    }


def _pad_to(x, axis, multiple, value=0):
    short = (-x.shape[axis]) % multiple
    if short == 0:
        return x
    widths = [(0, 0)] * x.ndim
    widths[axis] = (0, short)
    return jnp.pad(x, widths, constant_values=value)


@partial(jax.jit, static_argnames=("causal", "q_block", "k_block"))
def streamed_attention(q, k, v, kv_valid=None, *, causal=True, q_block=16, k_block=32):
    """q [B, Lq, Hq, d]; k, v [B, Lk, Hkv, d]; kv_valid [B, Lk] bool, True for real keys.

    Query head ``h`` reads KV head ``h // (Hq // Hkv)``. When ``causal`` the last query is
    aligned with the last key. Rows without any key come out as zeros.
    """
    B, Lq, Hq, d = q.shape
    Lk, Hkv = k.shape[1], k.shape[2]
    G = Hq // Hkv
    if kv_valid is None:
        kv_valid = jnp.ones((B, Lk), bool)

    q = _pad_to(q.reshape(B, Lq, Hkv, G, d) * d ** -0.5, 1, q_block)
    k, v = _pad_to(k, 1, k_block), _pad_to(v, 1, k_block)
    kv_valid = _pad_to(kv_valid, 1, k_block, False)
    nq, nk = q.shape[1] // q_block, k.shape[1] // k_block

    qs = jnp.moveaxis(q.reshape(B, nq, q_block, Hkv, G, d), 1, 0)
    ks = jnp.moveaxis(k.reshape(B, nk, k_block, Hkv, d), 1, 0)
    vs = jnp.moveaxis(v.reshape(B, nk, k_block, Hkv, d), 1, 0)
    ms = jnp.moveaxis(kv_valid.reshape(B, nk, k_block), 1, 0)
    neg = jnp.finfo(jnp.float32).min

    def one_query_block(args):
        qi, qb = args
        q_pos = qi * q_block + jnp.arange(q_block) + (Lk - Lq)

        def step(carry, inp):
            m, l, acc = carry
            ki, kb, vb, mb = inp
            s = jnp.einsum("bqhgd,bkhd->bhgqk", qb, kb, preferred_element_type=jnp.float32)
            ok = mb[:, None, None, None, :]
            if causal:
                k_pos = ki * k_block + jnp.arange(k_block)
                ok = ok & (k_pos[None, :] <= q_pos[:, None])
            m_new = jnp.maximum(m, jnp.where(ok, s, neg).max(-1))
            p = jnp.where(ok, jnp.exp(s - m_new[..., None]), 0.0)
            corr = jnp.exp(m - m_new)
            l = l * corr + p.sum(-1)
            acc = acc * corr[..., None] + jnp.einsum("bhgqk,bkhd->bhgqd", p, vb)
            return (m_new, l, acc), None

        stat = (B, Hkv, G, q_block)
        start = (jnp.full(stat, neg), jnp.zeros(stat), jnp.zeros(stat + (d,)))
        (_, l, acc), _ = lax.scan(step, start, (jnp.arange(nk), ks, vs, ms))
        return acc / jnp.where(l == 0, 1.0, l)[..., None]

    out = lax.map(one_query_block, (jnp.arange(nq), qs))          # [nq, B, Hkv, G, qb, d]
    out = out.transpose(1, 0, 4, 2, 3, 5).reshape(B, nq * q_block, Hq, d)
    return out[:, :Lq].astype(v.dtype)


def self_attn(params, x, hp: AttnHP, kv_valid=None):
    B, L, _ = x.shape
    q = (x @ params["wq"]).reshape(B, L, hp.n_q, hp.d_head)
    k = (x @ params["wk"]).reshape(B, L, hp.n_kv, hp.d_head)
    v = (x @ params["wv"]).reshape(B, L, hp.n_kv, hp.d_head)
    o = streamed_attention(q, k, v, kv_valid, q_block=hp.q_block, k_block=hp.k_block)
    return o.reshape(B, L, hp.d_model) @ params["wo"]


if __name__ == "__main__":
    hp = AttnHP()
    p = init_attn(jax.random.PRNGKey(0), hp)
    print(self_attn(p, jnp.ones((2, 50, 64)), hp).shape)
