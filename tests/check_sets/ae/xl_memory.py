"""Transformer-XL attention with segment memory and relative positions, functional JAX."""
from typing import NamedTuple

import jax
import jax.numpy as jnp


class XLParams(NamedTuple):
    wq: jax.Array   # D H d
    wk: jax.Array
    wv: jax.Array
    wr: jax.Array
    wo: jax.Array   # H d D
    u: jax.Array    # H d
    t: jax.Array    # H d


def init(key, D, H):
    d = D // H
    ks = jax.random.split(key, 7)
    w = [jax.random.normal(k, (D, H, d)) / D ** 0.5 for k in ks[:4]]
    return XLParams(*w, jax.random.normal(ks[4], (H, d, D)) / D ** 0.5,
                    jax.random.normal(ks[5], (H, d)) * 0.1, jax.random.normal(ks[6], (H, d)) * 0.1)


def sinusoid(dist, D):
    f = 10000.0 ** (-jnp.arange(0, D, 2) / D)
    a = dist[:, None] * f
    return jnp.concatenate([jnp.sin(a), jnp.cos(a)], -1)


def xl_attention(p: XLParams, x, mem):
    """x (T, D) current segment, mem (M, D) hidden states of the segment before (no gradient)."""
    T, D = x.shape
    full = jnp.concatenate([jax.lax.stop_gradient(mem), x])
    S = len(full)
    q = jnp.einsum("td,dhe->the", x, p.wq)
    k = jnp.einsum("sd,dhe->she", full, p.wk)
    v = jnp.einsum("sd,dhe->she", full, p.wv)
    r = jnp.einsum("sd,dhe->she", sinusoid(jnp.arange(S), D), p.wr)

    dist = (jnp.arange(T) + S - T)[:, None] - jnp.arange(S)
    content = jnp.einsum("the,she->hts", q + p.u, k)
    position = jnp.einsum("the,she->hts", q + p.t, r)
    position = jnp.take_along_axis(position, jnp.maximum(dist, 0)[None], axis=-1)
    s = (content + position) / q.shape[-1] ** 0.5
    a = jax.nn.softmax(jnp.where(dist >= 0, s, -jnp.inf), axis=-1)
    return jnp.einsum("hts,she,hed->td", a, v, p.wo)
