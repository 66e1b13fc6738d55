"""Press-et-al. style language model in JAX: no position embeddings, linear biases instead.

The bias of head h is -slope_h * (i - j): the farther back a key j lies behind query i, the
less it counts. Position i predicts token i + 1 and may read positions 0..i.
"""
import functools
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np


class Conf(NamedTuple):
    vocab: int = 128
    width: int = 64
    heads: int = 8
    depth: int = 2
    mlp: int = 128


def slopes(heads):
    def geometric(n):
        r = 2.0 ** (-8.0 / n)
        return [r ** (i + 1) for i in range(n)]

    n = 2 ** int(math.floor(math.log2(heads)))
    s = geometric(n)
    if n < heads:
        s += geometric(2 * n)[::2][: heads - n]
    return jnp.array(s)


@functools.lru_cache(maxsize=32)
def _grid(length):
    i = np.arange(length)
    return i[:, None] - i[None, :]


def linear_bias(heads, length):
    """[heads, length, length]"""
    return slopes(heads)[:, None, None] * _grid(length)[None]


def causal_mask(length):
    return jnp.tril(jnp.ones((length, length), dtype=bool), k=1)


def attend(p, x, conf: Conf, keep=None):
    """x [B, L, width]; keep [B, L], True for tokens that are no padding (right padding)."""
    B, L, W = x.shape
    d = W // conf.heads
    to_heads = lambda t: t.reshape(B, L, conf.heads, d).swapaxes(1, 2)
    q, k, v = to_heads(x @ p["q"]), to_heads(x @ p["k"]), to_heads(x @ p["v"])

    logits = jnp.matmul(q, k.swapaxes(-1, -2)) / math.sqrt(d)
    logits = logits + linear_bias(conf.heads, L)[None]
    mask = causal_mask(L)[None, None]
    if keep is not None:
        mask = mask & keep[:, None, None, :]
    logits = jnp.where(mask, logits, jnp.finfo(logits.dtype).min)
    probs = jax.nn.softmax(logits, axis=-1)
    y = jnp.matmul(probs, v).swapaxes(1, 2).reshape(B, L, W)
    return y @ p["o"]


def norm(g, x):
    return g * x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-6)


def model(params, ids, conf: Conf, keep=None):
    x = params["emb"][ids]
    for p in params["blocks"]:
        x = x + attend(p["attn"], norm(p["g1"], x), conf, keep)
        h = norm(p["g2"], x)
        x = x + jax.nn.gelu(h @ p["up"]) @ p["down"]
    return norm(params["g"], x) @ params["emb"].T


def init(key, conf: Conf):
    w = conf.width
    mat = lambda k, a, b: jax.random.normal(k, (a, b)) / math.sqrt(a)
    blocks = []
    for _ in range(conf.depth):
        key, *ks = jax.random.split(key, 7)
        blocks.append({
            "attn": {n: mat(k, w, w) for n, k in zip("qkvo", ks)},
            "g1": jnp.ones(w), "g2": jnp.ones(w),
            "up": mat(ks[4], w, conf.mlp), "down": mat(ks[5], conf.mlp, w),
        })
    return {"emb": jax.random.normal(key, (conf.vocab, w)) * 0.3, "blocks": blocks, "g": jnp.ones(w)}


def loss(params, ids, conf: Conf, keep=None):
    logp = jax.nn.log_softmax(model(params, ids, conf, keep)[:, :-1])
    nll = -jnp.take_along_axis(logp, ids[:, 1:, None], axis=-1)[..., 0]
    w = jnp.ones_like(nll) if keep is None else keep[:, 1:].astype(nll.dtype)
    return (nll * w).sum() / w.sum()


@functools.partial(jax.jit, static_argnames="conf")
def train_step(params, ids, conf: Conf, lr=1e-2):
    value, grads = jax.value_and_grad(loss)(params, ids, conf)
    return jax.tree_util.tree_map(lambda p, g: p - lr * g, params, grads), value


if __name__ == "__main__":
    c = Conf()
    p = init(jax.random.PRNGKey(0), c)
    ids = jax.random.randint(jax.random.PRNGKey(1), (4, 16), 0, c.vocab)
    for step in range(3):
        p, v = train_step(p, ids, c)
        print(step, float(v))
