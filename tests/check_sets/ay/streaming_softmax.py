"""
Attention without ever holding the n x n matrix
===============================================

Companion code of the blog post. We walk over the keys in blocks and keep three
running things per query:

    top   the largest logit so far
    den   the softmax denominator, measured relative to ``top``
    num   the weighted sum of values, measured relative to ``top``

After the last block the answer is ``num / den``. It is not an approximation, the
result is the same as ``softmax(q k^T / sqrt(d)) v`` up to rounding.
"""
import math
from functools import partial

import jax
import jax.numpy as jnp
from jax import lax

VERY_SMALL = -1e30


def plain_attention(q, k, v, causal=False):
    """The textbook version, used in the figures for comparison. [n, d] each."""
    s = q @ k.T / math.sqrt(q.shape[-1])
    if causal:
        nq, nk = s.shape
        s = jnp.where(jnp.arange(nk)[None] <= jnp.arange(nq)[:, None] + nk - nq, s, VERY_SMALL)
    return jax.nn.softmax(s, axis=-1) @ v


def pad_rows(x, multiple):
    extra = -x.shape[0] % multiple
    return jnp.pad(x, ((0, extra), (0, 0)))


@partial(jax.jit, static_argnames=("block", "causal"))
def streaming_attention(q, k, v, block=128, causal=False):
    """q [nq, d], k [nk, d], v [nk, dv] -> [nq, dv].

    With ``causal`` the last query sits on the last key.
    """
    nq, d = q.shape
    nk = k.shape[0]
    kb = pad_rows(k, block).reshape(-1, block, d)
    vb = pad_rows(v, block).reshape(-1, block, v.shape[-1])
    q = q / math.sqrt(d)
    q_index = jnp.arange(nq)[:, None] + (nk - nq)

    def visit(carry, item):
        top, den, num = carry
        start, kj, vj = item
        s = q @ kj.T
        k_index = start + jnp.arange(block)[None, :]
        ok = k_index < nk
        if causal:
            ok = ok & (k_index <= q_index)
        s = jnp.where(ok, s, VERY_SMALL)

        new_top = jnp.maximum(top, s.max(axis=1))
        e = jnp.where(ok, jnp.exp(s - new_top[:, None]), 0.0)
        shrink = jnp.exp(top - new_top)
        den = den * shrink + e.sum(axis=1)
        num = num + e @ vj
        return (new_top, den, num), None

    init = (jnp.full((nq,), VERY_SMALL), jnp.zeros((nq,)), jnp.zeros((nq, v.shape[-1])))
    starts = jnp.arange(kb.shape[0]) * block
    (_, den, num), _ = lax.scan(visit, init, (starts, kb, vb))
    return num / jnp.maximum(den, 1e-30)[:, None]


def multihead(params, x, heads, block=128):
    """A causal layer on top of it. params: dict with 'qkv' [c, 3c] and 'out' [c, c]."""
    n, c = x.shape
    q, k, v = jnp.split(x @ params["qkv"], 3, axis=-1)
    split = lambda t: t.reshape(n, heads, c // heads).transpose(1, 0, 2)
    one = partial(streaming_attention, block=block, causal=True)
    y = jax.vmap(one)(split(q), split(k), split(v))
    return y.transpose(1, 0, 2).reshape(n, c) @ params["out"]


def memory_estimate(n, block, heads, bytes_per=4):
    """Bytes for the logits: textbook vs streaming, for the table in the post."""
    return {"textbook": heads * n * n * bytes_per, "streaming": heads * n * block * bytes_per}


def figure_two(n=512, d=32, seed=0):
    """Data for figure 2: norm of the output along the sequence."""
    kq, kk, kv = jax.random.split(jax.random.PRNGKey(seed), 3)
    q = jax.random.normal(kq, (n, d))
    k = jax.random.normal(kk, (n, d))
    v = jax.random.normal(kv, (n, d))
    out = streaming_attention(q, k, v, block=64, causal=True)
    return jnp.linalg.norm(out, axis=-1)


if __name__ == "__main__":
    print(memory_estimate(32768, 128, 16))
    print(figure_two()[:4])
