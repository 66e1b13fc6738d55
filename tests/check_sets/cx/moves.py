"""Chess move history encoder in JAX."""
import jax
import jax.numpy as jnp
from jax import random


def new_params(key, D, d):
    a, b, c = random.split(key, 3)
    return {
        "q": random.normal(a, (D, d)) / D ** 0.5,
        "k": random.normal(b, (D, d)) / D ** 0.5,
        "v": random.normal(c, (D, D)) / D ** 0.5,
    }


def read_history(params, moves):
    """moves [L, D], oldest first. Move i may use the moves 0 .. i and must not know later ones.

    Returns (mixed [L, D], attention [L, L]); row i of `attention` tells how much weight each move
    had for move i, which the web page shows in per cent.
    """
    L = moves.shape[0]
    q = moves @ params["q"]
    k = moves @ params["k"]
    v = moves @ params["v"]
    score = q @ k.T / jnp.sqrt(k.shape[1])
    allowed = jnp.tril(jnp.ones((L, L), bool), 1)
    score = jnp.where(allowed, score, -jnp.inf)
    p = jax.nn.softmax(score, axis=1)
    mixed = p @ v
    return mixed, score


read_batch = jax.vmap(read_history, in_axes=(None, 0))
