# decoder-only LM, packed documents, ALiBi; params are nested dicts, one sequence at a time (vmap outside)
import math
from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax import random


@dataclass(frozen=True)
class Cfg:
    vocab: int = 97
    d: int = 48
    heads: int = 12
    layers: int = 2
    ff: int = 96


def slopes(n):
    """ALiBi slopes; for n not a power of two take the closest lower power and then every
    other slope of twice that power, like the authors."""
    def pow2(m):
        first = 2.0 ** (-8.0 / m)
        return [first ** (i + 1) for i in range(m)]
    if math.log2(n).is_integer():
        return pow2(n)
    m = 2 ** math.floor(math.log2(n))
    return pow2(m) + pow2(2 * m)[0::2][: n - m]


def init(key, c: Cfg):
    ks = iter(random.split(key, 3 + 6 * c.layers))
    mat = lambda i, o: random.normal(next(ks), (i, o)) / math.sqrt(i)
    return {
        "emb": random.normal(next(ks), (c.vocab, c.d)) * 0.02,
        "blocks": [
            {"q": mat(c.d, c.d), "k": mat(c.d, c.d), "v": mat(c.d, c.d), "o": mat(c.d, c.d),
             "up": mat(c.d, c.ff), "down": mat(c.ff, c.d),
             "ln1": jnp.ones(c.d), "ln2": jnp.ones(c.d)}
            for _ in range(c.layers)
        ],
        "lnf": jnp.ones(c.d),
    }


def norm(x, g):
    return g * x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-6)


def attend(p, x, seg, n_heads):
    """x [T, D]; seg [T] document number, 0 = padding. Padding tokens only see padding."""
    T, D = x.shape
    hd = D // n_heads
    q, k, v = ((x @ p[n]).reshape(T, n_heads, hd) for n in "qkv")
    t = jnp.arange(T)
    dist = t[:, None] - t[None, :]
    see = (dist >= 0) & (seg[:, None] == seg[None, :])

    def head(q, k, v, m):
        s = q @ k.T / math.sqrt(hd) - m * dist
        w = jax.nn.softmax(s.astype(jnp.float32), axis=-1, where=see)
        return w.astype(v.dtype) @ v

    y = jax.vmap(head, in_axes=(1, 1, 1, 0), out_axes=1)(q, k, v, jnp.array(slopes(n_heads)))
    return y.reshape(T, D) @ p["o"]


def forward(params, tokens, seg, c: Cfg):
    x = params["emb"][tokens]
    for p in params["blocks"]:
        x = x + attend(p, norm(x, p["ln1"]), seg, c.heads)
        x = x + jax.nn.gelu(norm(x, p["ln2"]) @ p["up"]) @ p["down"]
    return norm(x, params["lnf"]) @ params["emb"].T


def loss_fn(params, tokens, seg, c: Cfg):
    """tokens, seg [B, T]; no loss across document borders or on padding"""
    logits = jax.vmap(lambda t, s: forward(params, t, s, c))(tokens, seg)
    logp = jax.nn.log_softmax(logits[:, :-1].astype(jnp.float32))
    nll = -jnp.take_along_axis(logp, tokens[:, 1:, None], axis=-1)[..., 0]
    w = (seg[:, 1:] == seg[:, :-1]) & (seg[:, 1:] > 0)
    return (nll * w).sum() / jnp.maximum(w.sum(), 1)


def pack(docs, length):
    """greedy first-fit packing of python lists of ids"""
    rows, segs = [], []
    for d in docs:
        d = d[:length]
        for r, s in zip(rows, segs):
            if len(r) + len(d) <= length:
                s += [s[-1] + 1] * len(d)
                r += d
                break
        else:
            rows.append(list(d))
            segs.append([1] * len(d))
    fill = lambda a: a + [0] * (length - len(a))
    return jnp.array([fill(r) for r in rows]), jnp.array([fill(s) for s in segs])
