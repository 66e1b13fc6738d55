"""Blockwise (memory efficient) attention for long documents.

Computes softmax(q k^T / sqrt(d)) v without materialising the score matrix, by
scanning over key blocks with running max and running denominator.
"""
import functools

import jax
import jax.numpy as jnp
from jax import lax


def _pad_to(x, multiple, axis):
    extra = (-x.shape[axis]) % multiple
    widths = [(0, 0)] * x.ndim
    widths[axis] = (0, extra)
    return jnp.pad(x, widths)


def _key_block(carry, inputs, *, q):
    acc, denom, running_max = carry
    k, v, valid = inputs
    s = jnp.einsum("bqhd,bkhd->bhqk", q, k)
    s = jnp.where(valid[None, None, None, :], s, -1e30)
    new_max = jnp.maximum(running_max, s.max(axis=-1))
    p = jnp.exp(s - new_max[..., None])
    correction = jnp.exp(running_max - new_max)
    denom = denom * correction + p.sum(axis=-1)
    acc = acc + jnp.einsum("bhqk,bkhd->bhqd", p, v)
    return (acc, denom, new_max), None


@functools.partial(jax.jit, static_argnames=("key_block",))
def blockwise_attention(q, k, v, key_block=4):
    """q: [batch, q_len, heads, dim], k/v: [batch, kv_len, heads, dim]"""
    b, lq, h, d = q.shape
    lk = k.shape[1]
    q = q * d ** -0.5

    k, v = _pad_to(k, key_block, 1), _pad_to(v, key_block, 1)
    n = k.shape[1] // key_block
    valid = (jnp.arange(n * key_block) < lk).reshape(n, key_block)
    kb = k.reshape(b, n, key_block, h, d).swapaxes(0, 1)
    vb = v.reshape(b, n, key_block, h, d).swapaxes(0, 1)

    init = (
        jnp.zeros((b, h, lq, d), q.dtype),
        jnp.zeros((b, h, lq), q.dtype),
        jnp.full((b, h, lq), -jnp.inf, q.dtype),
    )
    step = functools.partial(_key_block, q=q)
    (acc, denom, _), _ = lax.scan(step, init, (kb, vb, valid))
    return (acc / denom[..., None]).swapaxes(1, 2)


def document_encoder(params, x, key_block=4):
    """single layer, used for the long-context smoke run"""
    b, l, d = x.shape
    h = params["heads"]
    split = lambda t: t.reshape(b, l, h, d // h)
    y = blockwise_attention(split(x @ params["wq"]), split(x @ params["wk"]),
                            split(x @ params["wv"]), key_block=key_block)
    return x + y.reshape(b, l, d) @ params["wo"]
