"""Glacier front positions: causal transformer over satellite passes, JAX.

Passes are irregular but close to weekly, so position = index of the pass and
distance is penalised linearly (ALiBi): for n heads, n a power of two, head h
(h = 1..n) has slope 2 ** (-8 h / n). No learned positions anywhere.
"""
from functools import partial
from typing import Dict, List

import jax
import jax.numpy as jnp
from jax import Array

Params = Dict[str, Array]

GLACIERS = ["Jakobshavn", "Helheim", "Kangerlussuaq", "Petermann", "Zachariae"]
DAYS_PER_PASS = 6.0


def head_slopes(n: int) -> Array:
    return 2.0 ** (-8.0 * jnp.arange(n) / n)


def init_block(key: Array, dim: int) -> Params:
    ks = jax.random.split(key, 6)
    g = lambda k, i, o: jax.random.normal(k, (i, o)) * (i ** -0.5)
    return dict(q=g(ks[0], dim, dim), k=g(ks[1], dim, dim), v=g(ks[2], dim, dim),
                o=g(ks[3], dim, dim), up=g(ks[4], dim, 2 * dim), down=g(ks[5], 2 * dim, dim))


def attend(p: Params, x: Array, heads: int) -> Array:
    """multi-head causal attention of x [batch, passes, dim]

    Heads are consecutive slices of the features, before and after.
    """
    n, t, dim = x.shape
    d = dim // heads

    def split(w):
        return jnp.swapaxes(jnp.reshape(x @ w, (n, t, heads, d)), 1, 2)

    q, k, v = split(p["q"]), split(p["k"]), split(p["v"])
    scores = jnp.matmul(q, jnp.swapaxes(k, -1, -2)) / jnp.sqrt(d)
    behind = jnp.arange(t)[:, None] - jnp.arange(t)[None, :]
    scores = scores - head_slopes(heads)[:, None, None] * behind
    scores = jnp.where(behind >= 0, scores, -jnp.inf)
    probs = jax.nn.softmax(scores, axis=-1)
    mixed = jnp.matmul(probs, v)
    return jnp.reshape(mixed, (n, t, dim)) @ p["o"]


def layer_norm(x: Array, eps: float = 1e-5) -> Array:
    return (x - x.mean(-1, keepdims=True)) * jax.lax.rsqrt(x.var(-1, keepdims=True) + eps)


@partial(jax.jit, static_argnames="heads")
def forecast(blocks: List[Params], passes: Array, heads: int = 4) -> Array:
    """passes [batch, t, dim] -> features after every pass"""
    x = passes
    for p in blocks:
        x = x + attend(p, layer_norm(x), heads)
        x = x + jax.nn.gelu(layer_norm(x) @ p["up"]) @ p["down"]
    return layer_norm(x)


def retreat_rate(front_m: Array) -> Array:
    """m per year from front positions per pass, negative = retreat"""
    return jnp.diff(front_m, axis=-1) / DAYS_PER_PASS * 365.25


def calving_events(front_m: Array, jump: float = -150.0) -> Array:
    return jnp.diff(front_m, axis=-1) < jump


def train_step(blocks, batch, lr=1e-2, heads=4):
    def loss(b):
        y = forecast(b, batch["passes"], heads)[:, :-1, 0]
        return jnp.mean((y - batch["front"][:, 1:]) ** 2)

    value, grad = jax.value_and_grad(loss)(blocks)
    return value, jax.tree_util.tree_map(lambda w, g: w - lr * g, blocks, grad)


def main():
    key = jax.random.PRNGKey(42)
    blocks = [init_block(k, 32) for k in jax.random.split(key, 2)]
    batch = dict(passes=jax.random.normal(key, (len(GLACIERS), 12, 32)),
                 front=jnp.cumsum(jax.random.normal(key, (len(GLACIERS), 12)), -1))
    for step in range(3):
        value, blocks = train_step(blocks, batch)
        print(step, float(value))


if __name__ == "__main__":
    main()
