"""Encoder for whole source files (code search).

* bidirectional ALiBi, any number of heads
* logits capped to +-cap by tanh; position bias and mask come after the cap
"""
import math

import jax
import jax.numpy as jnp


def slopes(n):
    """Press et al.: geometric for powers of two, otherwise filled up from the next power."""
    def pow2(m):
        r = 2.0 ** (-8.0 / m)
        return [r ** (i + 1) for i in range(m)]

    m = 2 ** math.floor(math.log2(n))
    out = pow2(m)
    if m < n:
        out += pow2(2 * m)[0::2][: n - m]
    return jnp.array(out)


def attend(q, k, v, token_mask, cap=50.0):
    """q, k, v [B, L, H, D]; token_mask [B, L] is 1 for code tokens and 0 for padding.

    Rows of padding are computed too, they are thrown away by the pooling.
    """
    L, H, D = q.shape[1:]
    s = jnp.einsum("blhd,bmhd->bhlm", q, k, preferred_element_type=jnp.float32) / D ** 0.5
    s = cap * jnp.tanh(s / cap)
    pos = jnp.arange(L)
    s = s - slopes(H)[:, None, None] * jnp.abs(pos[:, None] - pos[None, :])
    s = jnp.where(token_mask[:, None, None, :] > 0, s, -1e30)
    w = jnp.exp(s - jax.lax.stop_gradient(s.max(-1, keepdims=True)))
    w = w / w.sum(-1, keepdims=True)
    return jnp.einsum("bhlm,bmhd->blhd", w.astype(v.dtype), v)


def mean_pool(x, token_mask):
    m = token_mask[..., None].astype(x.dtype)
    return (x * m).sum(1) / jnp.maximum(m.sum(1), 1)


def encode(params, ids, token_mask):
    x = params["emb"][ids]
    for blk in params["blocks"]:
        q, k, v = (jnp.einsum("bld,dhe->blhe", x, blk[n]) for n in "qkv")
        x = x + jnp.einsum("blhe,hed->bld", attend(q, k, v, token_mask), blk["o"])
    return mean_pool(x, token_mask)


def init(key, vocab=100, d=12, heads=3, layers=1):
    ke, *kb = jax.random.split(key, layers + 1)
    e = d // heads
    blocks = []
    for kk in kb:
        a, b, c, o = jax.random.split(kk, 4)
        blocks.append({n: jax.random.normal(z, (d, heads, e)) * d ** -0.5 for n, z in zip("qkv", (a, b, c))})
        blocks[-1]["o"] = jax.random.normal(o, (heads, e, d)) * d ** -0.5
    return {"emb": jax.random.normal(ke, (vocab, d)), "blocks": blocks}
