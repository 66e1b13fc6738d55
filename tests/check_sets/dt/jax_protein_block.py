"""Encoder block for protein sequences in plain JAX (no flax), parameters in a dict.

init(key, dim, heads, ff)      -> params
block(params, x, residues, heads)
    x        float [batch, length, dim]
    residues bool  [batch, length], True where there is a residue, False for the gap at the end
    returns  float [batch, length, dim]

Standard scaled dot-product attention in every head (softmax(q k^T / sqrt(d_head)) v), keys
that are no residue get no weight. Pre-norm, no learned norm parameters.
"""
import jax
import jax.numpy as jnp


def init(key, dim, heads, ff):
    ks = jax.random.split(key, 6)
    lin = lambda k, i, o: jax.random.normal(k, (i, o)) * (i ** -0.5)
    return {
        "wq": lin(ks[0], dim, dim),
        "wk": lin(ks[1], dim, dim),
        "wv": lin(ks[2], dim, dim),
        "wo": lin(ks[3], dim, dim),
        "up": lin(ks[4], dim, ff),
        "down": lin(ks[5], ff, dim),
    }


def norm(x):
    m = x.mean(-1, keepdims=True)
    return (x - m) * jax.lax.rsqrt(((x - m) ** 2).mean(-1, keepdims=True) + 1e-5)


def heads_of(x, w, heads):
    b, n, _ = x.shape
    return (x @ w).reshape(b, n, heads, -1).swapaxes(1, 2)


def attention(q, k, v, residues):
    scale = 1.0 / jnp.sqrt(q.shape[1])
    logits = jnp.einsum("bhqd,bhkd->bhqk", q, k) * scale
    logits = jnp.where(residues[:, None, None, :], logits, jnp.finfo(logits.dtype).min)
    return jnp.einsum("bhqk,bhkd->bhqd", jax.nn.softmax(logits, axis=-1), v)


def block(params, x, residues, heads):
    b, n, dim = x.shape
    h = norm(x)
    q, k, v = (heads_of(h, params[w], heads) for w in ("wq", "wk", "wv"))
    o = attention(q, k, v, residues)
    x = x + o.swapaxes(1, 2).reshape(b, n, dim) @ params["wo"]
    return x + jax.nn.gelu(norm(x) @ params["up"]) @ params["down"]


batched_block = jax.jit(block, static_argnums=3)
