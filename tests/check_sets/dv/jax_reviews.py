import functools

import jax
import jax.numpy as jnp


def init(key, vocab=500, dim=32, heads=4, classes=2):
    """Random parameters as a dict of arrays."""
    ks = jax.random.split(key, 6)
    g = lambda k, *s: jax.random.normal(k, s) / jnp.sqrt(s[0])
    return {
        "emb": jax.random.normal(ks[0], (vocab, dim)),
        "q": g(ks[1], dim, heads, dim // heads),
        "k": g(ks[2], dim, heads, dim // heads),
        "v": g(ks[3], dim, heads, dim // heads),
        "o": g(ks[4], dim, dim).reshape(heads, dim // heads, dim),
        "cls": g(ks[5], dim, classes),
    }


def attend_one(p, x, real):
    """Multi-head self-attention over ONE review.

    p: dict with 'q', 'k', 'v' of shape (dim, heads, d) and 'o' (heads, d, dim)
    x: (words, dim); real: (words,) bool, True = word, False = padding (never read; at least one
    word). Logits are scaled by 1/sqrt(d). Returns (words, dim).
    """
    q = jnp.tensordot(x, p["q"], 1)                 # w h d
    k = jnp.tensordot(x, p["k"], 1)
    v = jnp.tensordot(x, p["v"], 1)
    s = jnp.einsum("ihd,jhd->hij", q, k) * q.shape[-1] ** -0.5
    a = jax.nn.softmax(s, axis=2, where=real[None, None, :])
    return jnp.einsum("hij,jhd,hdm->im", a, v, p["o"])


@functools.partial(jax.vmap, in_axes=(None, 0))
def logits(p, tokens):
    """tokens (batch, words) int, 0 = padding -> (batch, classes); mean of the real words."""
    real = tokens > 0
    x = p["emb"][tokens]
    x = x + attend_one(p, x, real)
    return jnp.mean(x, axis=0, where=real[:, None]) @ p["cls"]
