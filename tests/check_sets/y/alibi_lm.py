"""A functional JAX language model with linear position biases.

Parameters are nested dicts, apply functions are pure:

    params = init(jax.random.PRNGKey(0), HP)
    logits = apply(params, tokens, HP)
"""
import math
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax


class HP(NamedTuple):
    vocab: int = 64
    dim: int = 36
    heads: int = 6
    depth: int = 2


def get_slopes(n):
    def pow2(n):
        start = 2 ** (-(2 ** -(math.log2(n) - 3)))
        return [start * start ** i for i in range(n)]

    if math.log2(n).is_integer():
        return pow2(n)
    c = 2 ** math.floor(math.log2(n))
    return pow2(c) + get_slopes(2 * c)[0::2][: n - c]


def glorot(key, i, o):
    lim = (6 / (i + o)) ** 0.5
    return jax.random.uniform(key, (i, o), minval=-lim, maxval=lim)


def init(key, hp=HP()):
    key, k0 = jax.random.split(key)
    layers = []
    for _ in range(hp.depth):
        key, *ks = jax.random.split(key, 7)
        d = hp.dim
        layers.append(dict(
            q=glorot(ks[0], d, d), k=glorot(ks[1], d, d), v=glorot(ks[2], d, d), o=glorot(ks[3], d, d),
            up=glorot(ks[4], d, 4 * d), down=glorot(ks[5], 4 * d, d),
            ln1=jnp.ones(d), ln2=jnp.ones(d)))
    return dict(emb=jax.random.normal(k0, (hp.vocab, hp.dim)) * 0.2, layers=layers, ln=jnp.ones(hp.dim))


def ln(x, g):
    x = x - x.mean(-1, keepdims=True)
    return g * x * lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-5)


def attend(p, x, n_heads, segment_ids=None):
    """x (T, D), one sequence. segment_ids (T,): packed documents do not see each other."""
    T, D = x.shape
    q, k, v = (jnp.reshape(x @ p[n], (T, n_heads, D // n_heads)) for n in 'qkv')
    logits = jnp.einsum('thd,shd->hts', q, k, preferred_element_type=jnp.float32)
    logits = logits / math.sqrt(D // n_heads)
    pos = jnp.arange(T)
    dist = pos[None, :] - pos[:, None]
    slopes = jnp.asarray(get_slopes(n_heads), jnp.float32)
    logits = logits + slopes[:, None, None] * dist
    ok = dist <= 0
    if segment_ids is not None:
        ok &= segment_ids[:, None] == segment_ids[None, :]
    logits = jnp.where(ok, logits, jnp.finfo(jnp.float32).min)
    w = jax.nn.softmax(logits, axis=-1).astype(x.dtype)
    return jnp.einsum('hts,shd->thd', w, v).reshape(T, D) @ p['o']


def apply_one(params, tokens, segment_ids, hp):
    x = params['emb'][tokens]
    for p in params['layers']:
        x = x + attend(p, ln(x, p['ln1']), hp.heads, segment_ids)
        x = x + jax.nn.gelu(ln(x, p['ln2']) @ p['up']) @ p['down']
    return ln(x, params['ln']) @ params['emb'].T


def apply(params, tokens, hp=HP(), segment_ids=None):
    """tokens (B, T) -> (B, T, vocab)"""
    ax = None if segment_ids is None else 0
    return jax.vmap(partial(apply_one, hp=hp), in_axes=(None, 0, ax))(params, tokens, segment_ids)


def nll(params, tokens, hp=HP()):
    lp = jax.nn.log_softmax(apply(params, tokens[:, :-1], hp))
    return -jnp.take_along_axis(lp, tokens[:, 1:, None], -1).mean()
