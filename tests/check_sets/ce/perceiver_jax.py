"""Perceiver encoder step in plain JAX (no framework), parameters in a dict.

Reproduction of the byte-level model of "Perceiver: General Perception with
Iterative Attention" at toy size. A small array of latents reads a long array of
inputs by cross-attention, the latents then attend to each other.

Conventions: `x` [batch, length, features]; `valid` [batch, length] is True for
real bytes and False for padding. An example that is all padding reads zeros.
"""
import functools

import jax
import jax.numpy as jnp


def dense(key, d_in, d_out):
    return {"w": jax.random.normal(key, (d_in, d_out)) * d_in ** -0.5, "b": jnp.zeros((d_out,))}


def init(key, d_lat=32, d_inp=20, n_lat=6, d_head=8, heads=4):
    ks = iter(jax.random.split(key, 16))
    inner = d_head * heads

    def attn(d_q, d_kv):
        return {"q": dense(next(ks), d_q, inner), "k": dense(next(ks), d_kv, inner),
                "v": dense(next(ks), d_kv, inner), "o": dense(next(ks), inner, d_q)}

    return {"latents": jax.random.normal(next(ks), (n_lat, d_lat)) * 0.02,
            "cross": attn(d_lat, d_inp), "self": attn(d_lat, d_lat),
            "up": dense(next(ks), d_lat, 2 * d_lat), "down": dense(next(ks), 2 * d_lat, d_lat)}


def apply(p, x):
    return x @ p["w"] + p["b"]


def norm(x, eps=1e-5):
    return (x - x.mean(-1, keepdims=True)) * jax.lax.rsqrt(x.var(-1, keepdims=True) + eps)


def masked_softmax(logits, keep):
    logits = logits.astype(jnp.float32)
    if keep is not None:
        logits = jnp.where(keep, logits, -1e30)
    return jax.nn.softmax(logits, axis=-1)


def attend(p, xq, xkv, heads, valid=None):
    b, n, _ = xq.shape
    m = xkv.shape[1]
    q = apply(p["q"], xq).reshape(b, n, heads, -1)
    k = apply(p["k"], xkv).reshape(b, m, heads, -1)
    v = apply(p["v"], xkv).reshape(b, m, heads, -1)
    logits = jnp.einsum("bnhd,bmhd->bhnm", q, k) / jnp.sqrt(q.shape[-1])
    keep = None if valid is None else valid[:, None, None, :]
    w = masked_softmax(logits, keep)
    if valid is not None:
        w = jnp.where(valid.any(-1)[:, None, None, None], w, 0.0)
    out = jnp.einsum("bhnm,bmhd->bnhd", w.astype(v.dtype), v).reshape(b, n, -1)
    return apply(p["o"], out)


@functools.partial(jax.jit, static_argnames=("heads",))
def encode(params, inputs, valid=None, heads=4):
    """inputs [B, M, d_inp], valid [B, M] or None -> latents [B, n_lat, d_lat]."""
    z = jnp.broadcast_to(params["latents"], (inputs.shape[0],) + params["latents"].shape)
    z = z + attend(params["cross"], norm(z), norm(inputs), heads, valid)
    z = z + attend(params["self"], norm(z), norm(z), heads)
    return z + apply(params["down"], jax.nn.gelu(apply(params["up"], norm(z))))


if __name__ == "__main__":
    params = init(jax.random.PRNGKey(0))
    x = jax.random.normal(jax.random.PRNGKey(1), (2, 50, 20))
    ok = jnp.arange(50)[None] < jnp.array([[50], [31]])
    print(encode(params, x, ok).shape)
