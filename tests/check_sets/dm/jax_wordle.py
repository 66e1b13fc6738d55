"""Wordle bot, JAX edition.  An autoregressive transformer over the guesses so far.

params: dict(wq, wk, wv, wo), each (D, D), x @ w
x     : (B, T, D) embeddings of guesses and colours, in time order

causal_attention(params, x, n_head) -> (B, T, D)

Decoder style: guess t is predicted from the guesses up to t and must not know the later
ones, the game is not played yet at that moment.  Standard scaled dot product, scores
divided by the square root of the head size D // n_head, softmax over the guesses seen.
"""
from functools import partial

import jax
import jax.numpy as jnp


def heads_of(x, n_head):
    B, T, D = x.shape
    return x.reshape(B, T, n_head, D // n_head).transpose(0, 2, 1, 3)


@partial(jax.jit, static_argnames="n_head")
def causal_attention(params, x, n_head):
    B, T, D = x.shape
    scale = (D // n_head) ** -0.5
    q = heads_of(x @ params["wq"], n_head)
    k = heads_of(x @ params["wk"], n_head)
    v = heads_of(x @ params["wv"], n_head)
    scores = q @ k.swapaxes(-1, -2) / scale
    weights = jax.nn.softmax(scores, axis=-1)
    y = (weights @ v).transpose(0, 2, 1, 3).reshape(B, T, D)
    return y @ params["wo"]


def block(params, x, n_head):
    def norm(z):
        z = z - z.mean(-1, keepdims=True)
        return z * jax.lax.rsqrt(z.var(-1, keepdims=True) + 1e-6)

    x = x + causal_attention(params, norm(x), n_head)
    return x + jax.nn.gelu(norm(x) @ params["up"]) @ params["down"]
