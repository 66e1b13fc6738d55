"""Sperm whale codas: click trains attend to click trains (JAX).

Each head owns a learned *sink* logit.  It takes part in the softmax as one more
column whose value is zero, so a head that finds nothing can stay silent:

    p_ij = exp(s_ij) / (exp(sink_h) + sum_j exp(s_ij))
"""
from functools import partial

import jax
import jax.numpy as jnp
from jax import random

N_HEADS = 4
CLICKS_MAX = 40


def params(rng, c):
    ks = random.split(rng, 5)
    lin = lambda k: random.normal(k, (c, c)) * c ** -0.5
    return dict(q=lin(ks[0]), k=lin(ks[1]), v=lin(ks[2]), o=lin(ks[3]),
                sink=random.normal(ks[4], (N_HEADS,)))


def inter_click(times):
    """(..., n) click times in s -> log inter-click intervals, first one 0."""
    d = jnp.diff(times, axis=-1, prepend=times[..., :1])
    return jnp.log1p(d)


def _heads(x):
    return x.reshape(*x.shape[:-1], N_HEADS, -1)


@partial(jax.jit, static_argnames="causal")
def coda_attention(p, x, valid, causal=False):
    """x (n, c) clicks of one recording, valid (n,) bool, True = a real click."""
    q, k, v = _heads(x @ p["q"]), _heads(x @ p["k"]), _heads(x @ p["v"])
    s = jnp.einsum("ihd,jhd->hij", q, k) / jnp.sqrt(q.shape[-1])
    keep = valid[None, None, :]
    if causal:
        keep = keep & jnp.tri(x.shape[0], dtype=bool)[None]
    s = jnp.where(keep, s, -jnp.inf)
    sink = p["sink"][:, None, None]
    m = jnp.maximum(s.max(-1, keepdims=True), sink)
    e = jnp.exp(s - m)
    z = e.sum(-1, keepdims=True) + jnp.exp(sink)
    y = jnp.einsum("hij,jhd->ihd", e / z, v)
    return y.reshape(x.shape) @ p["o"]


batched = jax.vmap(coda_attention, in_axes=(None, 0, 0))


def clan_logits(p, w, x, valid):
    h = x + batched(p, x, valid)
    h = jnp.where(valid[..., None], h, 0.0).sum(1) / valid.sum(1, keepdims=True)
    return h @ w


if __name__ == "__main__":
    r = random.PRNGKey(0)
    P = params(r, 16)
    X = random.normal(r, (2, 6, 16))
    print(batched(P, X, jnp.ones((2, 6), bool)).shape)
