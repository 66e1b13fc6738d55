# next-note model for the Bach chorales, stax-flavoured: every layer is (init_fun, apply_fun)
import jax
import jax.numpy as jnp
from jax import random


def Dense(out_dim):
    def init_fun(rng, in_dim):
        w = random.normal(rng, (in_dim, out_dim)) / jnp.sqrt(in_dim)
        return out_dim, (w, jnp.zeros(out_dim))

    def apply_fun(params, x):
        w, b = params
        return x @ w + b

    return init_fun, apply_fun


def LayerNorm():
    def init_fun(rng, in_dim):
        return in_dim, (jnp.ones(in_dim), jnp.zeros(in_dim))

    def apply_fun(params, x):
        g, b = params
        m = x.mean(-1, keepdims=True)
        s = x.var(-1, keepdims=True)
        return g * (x - m) / jnp.sqrt(s + 1e-5) + b

    return init_fun, apply_fun


def CausalAttention(n_heads):
    """[batch, time, dim] -> [batch, time, dim]; a note sees itself and the notes before it."""
    names = ('q', 'k', 'v', 'o')

    def init_fun(rng, in_dim):
        ks = random.split(rng, 4)
        return in_dim, {n: random.normal(k, (in_dim, in_dim)) / jnp.sqrt(in_dim) for n, k in zip(names, ks)}

    def apply_fun(params, x):
        b, t, c = x.shape
        d = c // n_heads
        split = lambda y: y.reshape(b, t, n_heads, d).transpose(0, 2, 1, 3)
        q, k, v = (split(x @ params[n]) for n in ('q', 'k', 'v'))
        scores = q @ k.swapaxes(-1, -2) / jnp.sqrt(d)
        past = jnp.tril(jnp.ones((t, t)), k=1)
        scores = jnp.where(past > 0, scores, -1e30)
        y = jax.nn.softmax(scores, axis=-1) @ v
        return y.transpose(0, 2, 1, 3).reshape(b, t, c) @ params['o']

    return init_fun, apply_fun


def Residual(*layers):
    inits, applies = zip(*layers)

    def init_fun(rng, in_dim):
        params, d = [], in_dim
        for f in inits:
            rng, sub = random.split(rng)
            d, p = f(sub, d)
            params.append(p)
        return in_dim, params

    def apply_fun(params, x):
        y = x
        for f, p in zip(applies, params):
            y = f(p, y)
        return x + y

    return init_fun, apply_fun


def Gelu():
    return (lambda rng, in_dim: (in_dim, ())), (lambda params, x: jax.nn.gelu(x))


def MusicTransformer(dim=32, n_heads=4, depth=2):
    """returns init_fun(rng) -> params and apply_fun(params, x [batch, time, dim])"""
    blocks = []
    for _ in range(depth):
        blocks.append(Residual(LayerNorm(), CausalAttention(n_heads)))
        blocks.append(Residual(LayerNorm(), Dense(4 * dim), Gelu(), Dense(dim)))

    def init_fun(rng):
        return [blk[0](k, dim)[1] for blk, k in zip(blocks, random.split(rng, len(blocks)))]

    def apply_fun(params, x):
        for (_, apply), p in zip(blocks, params):
            x = apply(p, x)
        return x

    return init_fun, apply_fun
