"""Sovereign yield curves: tenor queries read a long history of auctions, block by block.

    curve_attention(q, k, v, kv_len, block) -> (out, lse)

q [B, H, Q, d], k [B, H, N, d], v [B, H, N, e], N a multiple of `block`;
kv_len [B] int: auctions at index >= kv_len[b] are filler. A book with kv_len 0 gets
out = 0 and lse = -inf. lse is the natural log-sum-exp of the scaled logits.
"""
from functools import partial

import jax
import jax.numpy as jnp

TENORS = (2.0, 5.0, 7.0, 10.0, 20.0, 30.0)


def _blocks(x, block):
    b, h, n, d = x.shape
    return jnp.moveaxis(x.reshape(b, h, n // block, block, d), 2, 0)


@partial(jax.jit, static_argnames="block")
def curve_attention(q, k, v, kv_len, block=4):
    d = q.shape[-1]
    n_blocks = k.shape[2] // block

    def body(carry, inp):
        top, den, num = carry
        kb, vb, i = inp
        z = jnp.einsum("bhqd,bhnd->bhqn", q, kb) / jnp.sqrt(d)
        idx = i * block + jnp.arange(block)
        live = (idx[None, :] < kv_len[:, None])[:, None, None, :]
        z = jnp.where(live, z, -jnp.inf)
        new = jnp.maximum(top, z.max(-1))
        ref = jnp.where(jnp.isfinite(new), new, 0.0)
        old = jnp.exp(top - ref)
        p = jnp.exp(z - ref[..., None])
        den = den * old + p.sum(-1)
        num = num * old[..., None] + jnp.einsum("bhqn,bhne->bhqe", p, vb)
        return (new, den, num), None

    shape = q.shape[:3]
    init = (jnp.full(shape, -jnp.inf, q.dtype), jnp.zeros(shape, q.dtype), jnp.zeros(shape + v.shape[-1:], q.dtype))
    (top, den, num), _ = jax.lax.scan(body, init, (_blocks(k, block), _blocks(v, block), jnp.arange(n_blocks)))
    empty = den == 0
    out = num / jnp.where(empty, 1.0, den)[..., None]
    lse = jnp.where(empty, -jnp.inf, jnp.where(empty, 0.0, top) + jnp.log(jnp.where(empty, 1.0, den)))
    return out, lse


def init_params(key, heads=2, d=6):
    a, b, c, e = jax.random.split(key, 4)
    return dict(
        q=jax.random.normal(a, (heads, 3, d)),
        k=jax.random.normal(b, (heads, 5, d)) / 5 ** 0.5,
        v=jax.random.normal(c, (heads, 5, d)) / 5 ** 0.5,
        o=jax.random.normal(e, (heads, d)) * 0.1,
    )


def nelson_siegel(tenor, lam=0.6):
    x = tenor * lam
    slope = (1 - jnp.exp(-x)) / x
    return jnp.stack([jnp.ones_like(x), slope, slope - jnp.exp(-x)], -1)


def fit(params, auctions, kv_len):
    """auctions [B, N, 5] = tenor, yield, cover, tail, days ago -> yields at TENORS [B, 6]."""
    ask = nelson_siegel(jnp.array(TENORS))
    q = jnp.broadcast_to(jnp.einsum("tf,hfd->htd", ask, params["q"])[None], (len(auctions),) + (params["q"].shape[0], len(TENORS), params["q"].shape[2]))
    k = jnp.einsum("bnf,hfd->bhnd", auctions, params["k"])
    v = jnp.einsum("bnf,hfd->bhnd", auctions, params["v"])
    out, _ = curve_attention(q, k, v, kv_len)
    return jnp.einsum("bhtd,hd->bt", out, params["o"])


if __name__ == "__main__":
    key = jax.random.PRNGKey(3)
    print(fit(init_params(key), jax.random.normal(key, (2, 12, 5)), jnp.array([12, 5])))
