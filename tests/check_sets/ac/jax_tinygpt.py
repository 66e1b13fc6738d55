# tiny GPT, pure functions + nested dict of params. about as short as I could make it
import jax
import jax.numpy as jnp
from jax import random as jr


def dense_init(key, n_in, n_out):
    return {"w": jr.normal(key, (n_in, n_out)) * n_in ** -0.5, "b": jnp.zeros(n_out)}


def dense(p, x):
    return x @ p["w"] + p["b"]


def ln(p, x):
    mu, var = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    return (x - mu) * jax.lax.rsqrt(var + 1e-5) * p["g"] + p["b"]


def ln_init(d):
    return {"g": jnp.ones(d), "b": jnp.zeros(d)}


def init_gpt(key, vocab, ctx, d, layers):
    ks = iter(jr.split(key, 3 + 4 * layers))
    return {
        "tok": jr.normal(next(ks), (vocab, d)) * 0.1,
        "pos": jr.normal(next(ks), (ctx, d)) * 0.1,
        "blocks": [
            {"ln1": ln_init(d), "qkv": dense_init(next(ks), d, 3 * d), "o": dense_init(next(ks), d, d),
             "ln2": ln_init(d), "up": dense_init(next(ks), d, 4 * d), "down": dense_init(next(ks), 4 * d, d)}
            for _ in range(layers)
        ],
        "lnf": ln_init(d),
    }


def head_attention(q, k, v, allowed):
    # one head: q, k, v are [T, dh]
    s = q @ k.T * q.shape[-1] ** -0.5
    s = jnp.where(allowed, s, -1e30)
    return jax.nn.softmax(s, axis=1) @ v


def mha(p, x, n_heads):
    T, d = x.shape
    # position t may use positions 0..t
    allowed = jnp.tril(jnp.ones((T, T), bool), k=1)
    q, k, v = jnp.split(dense(p["qkv"], x), 3, axis=-1)
    heads = lambda a: a.reshape(T, n_heads, d // n_heads)
    # map over the head axis, which sits in the middle
    y = jax.vmap(head_attention, in_axes=(1, 1, 1, None), out_axes=1)(heads(q), heads(k), heads(v), allowed)
    return dense(p["o"], y.reshape(T, d))


def block(p, x, n_heads):
    x = x + mha(p, ln(p["ln1"], x), n_heads)
    return x + dense(p["down"], jax.nn.gelu(dense(p["up"], ln(p["ln2"], x))))


def gpt(params, ids, n_heads):
    """ids [T] -> next-token logits [T, vocab]"""
    x = params["tok"][ids] + params["pos"][: ids.shape[0]]
    for p in params["blocks"]:
        x = block(p, x, n_heads)
    return ln(params["lnf"], x) @ params["tok"].T


def loss(params, batch, n_heads):
    """batch [B, T+1]; mean next-token cross entropy"""
    logits = jax.vmap(lambda s: gpt(params, s, n_heads))(batch[:, :-1])
    logp = jax.nn.log_softmax(logits)
    return -jnp.take_along_axis(logp, batch[:, 1:, None], axis=-1).mean()
