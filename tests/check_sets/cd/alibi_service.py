"""Attention with linear biases for the text-completion service (JAX).

No position embeddings: every head adds ``-m_h * (i - j)`` to the logits, with
the geometric slopes of Press et al. 2022 (for 8 heads: 1/2, 1/4, ... 1/256).
The number of heads is a power of two.  ``attend`` is causal and takes keys that
may be longer than the queries (cached prefix); the last query is aligned with
the last key.
"""
from functools import partial

import jax
import jax.numpy as jnp


def head_slopes(n_heads):
    h = jnp.arange(n_heads)
    return 2.0 ** (-8.0 * h / n_heads)


def init_params(key, d_model, scale=0.3):
    ks = jax.random.split(key, 4)
    return {n: scale * jax.random.normal(k, (d_model, d_model)) for n, k in zip("qkvo", ks)}


def split(x, n_heads):
    return x.reshape(*x.shape[:-1], n_heads, -1)


@partial(jax.jit, static_argnames="n_heads")
def attend(params, x, past_k, past_v, n_heads):
    """x [B, T, D]; past_k, past_v [B, P, H, d].  Returns y [B, T, D], new k, v."""
    q = split(x @ params["q"], n_heads)
    k = jnp.concatenate([past_k, split(x @ params["k"], n_heads)], axis=1)
    v = jnp.concatenate([past_v, split(x @ params["v"], n_heads)], axis=1)
    t, s = q.shape[1], k.shape[1]

    i = jnp.arange(t)[:, None] + (s - t)
    j = jnp.arange(s)[None, :]
    bias = -head_slopes(n_heads)[:, None, None] * (i - j)
    logits = jnp.einsum("bthd,bshd->bhts", q, k) / jnp.sqrt(q.shape[-1])
    logits = jnp.where(j <= i, logits + bias, -jnp.inf)
    probs = jax.nn.softmax(logits, axis=-1)
    y = jnp.einsum("bhts,bshd->bthd", probs, v)
    return y.reshape(x.shape) @ params["o"], k, v


class Completion:
    """Keeps keys and values of one conversation between calls."""

    def __init__(self, params, n_heads=4, batch=1):
        self.params, self.n_heads = params, n_heads
        d = params["q"].shape[0] // n_heads
        self.k = jnp.zeros((batch, 0, n_heads, d))
        self.v = jnp.zeros((batch, 0, n_heads, d))

    def feed(self, x):
        y, self.k, self.v = attend(self.params, x, self.k, self.v, n_heads=self.n_heads)
        return y


if __name__ == "__main__":
    p = init_params(jax.random.PRNGKey(0), 32)
    chat = Completion(p)
    print(chat.feed(jnp.ones((1, 5, 32))).shape, chat.feed(jnp.ones((1, 1, 32))).shape)
