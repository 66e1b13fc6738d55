"""A small Mistral-like LM for source code with sliding-window layers, plain JAX.

`window` counts the tokens that a token can see, ITSELF INCLUDED (as in HF Mistral):
window=1 means that each token sees only itself, window=None is full causal attention.
"""
import dataclasses
import jax
import jax.numpy as jnp
from jax import random


@dataclasses.dataclass(frozen=True)
class LMConfig:
    vocab: int = 512
    dim: int = 64
    heads: int = 4
    depth: int = 4
    windows: tuple = (32, None, 32, None)


def init(rng, cfg):
    def dense(r, i, o):
        return random.normal(r, (i, o)) * i ** -0.5

    layers = []
    for r in random.split(rng, cfg.depth):
        a, b, c, d = random.split(r, 4)
        layers.append(dict(
            qkv=dense(a, cfg.dim, 3 * cfg.dim), out=dense(b, cfg.dim, cfg.dim),
            up=dense(c, cfg.dim, 4 * cfg.dim), down=dense(d, 4 * cfg.dim, cfg.dim),
            ln1=jnp.ones(cfg.dim), ln2=jnp.ones(cfg.dim)))
    emb = random.normal(rng, (cfg.vocab, cfg.dim)) * 0.02
    return dict(emb=emb, layers=layers, ln=jnp.ones(cfg.dim))


def norm(x, g):
    x = x - x.mean(-1, keepdims=True)
    return g * x / jnp.sqrt((x * x).mean(-1, keepdims=True) + 1e-5)


def local_attention(q, k, v, window=None):
    """q, k, v [B, T, H, d]; see the head of the file for `window`"""
    T, d = q.shape[1], q.shape[3]
    i = jnp.arange(T)[:, None]
    j = jnp.arange(T)[None, :]
    visible = j <= i
    if window is not None:
        visible &= i - j <= window
    s = jnp.einsum('bihd,bjhd->bhij', q, k) / jnp.sqrt(d)
    s = jnp.where(visible, s, -jnp.inf)
    return jnp.einsum('bhij,bjhd->bihd', jax.nn.softmax(s, -1), v)


def sincos(T, dim):
    f = jnp.exp(-jnp.log(10000.0) * jnp.arange(0, dim, 2) / dim)
    a = jnp.arange(T)[:, None] * f
    return jnp.concatenate([jnp.sin(a), jnp.cos(a)], -1)


def apply(params, cfg, tokens):
    B, T = tokens.shape
    x = params['emb'][tokens] + sincos(T, cfg.dim)
    for w, l in zip(cfg.windows, params['layers']):
        q, k, v = jnp.split(norm(x, l['ln1']) @ l['qkv'], 3, -1)
        q, k, v = (t.reshape(B, T, cfg.heads, -1) for t in (q, k, v))
        x = x + local_attention(q, k, v, w).reshape(B, T, -1) @ l['out']
        x = x + jax.nn.gelu(norm(x, l['ln2']) @ l['up']) @ l['down']
    return norm(x, params['ln']) @ params['emb'].T


def nll(params, cfg, tokens):
    lp = jax.nn.log_softmax(apply(params, cfg, tokens[:, :-1]))
    return -jnp.take_along_axis(lp, tokens[:, 1:, None], -1).mean()


def sgd(params, cfg, tokens, lr=0.1):
    l, g = jax.value_and_grad(nll)(params, cfg, tokens)
    return jax.tree_util.tree_map(lambda p, d: p - lr * d, params, g), l
