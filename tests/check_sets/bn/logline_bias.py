"""Anomaly scores for system logs.

Templates are mined with NumPy (Drain, very reduced), their ids go through a small
causal attention model in JAX; the score of a line is its surprise.

Position enters only through linear biases: head h of n has the slope 2^(-8(h+1)/n),
h = 0 .. n-1, that is 2^-1, 2^-2, ..., 2^-8 for eight heads.  n is a power of two.
"""
import re
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

HEX = re.compile(r"0x[0-9a-f]+|\b\d[\d.:]*\b|/[\w/.-]+")


class Templates:
    def __init__(self, sim=0.6):
        self.sim, self.known = sim, []

    def id_of(self, line):
        words = HEX.sub("<*>", line.lower()).split()
        for i, t in enumerate(self.known):
            if len(t) == len(words):
                same = np.mean([a == b or a == "<*>" for a, b in zip(t, words)])
                if same >= self.sim:
                    self.known[i] = [a if a == b else "<*>" for a, b in zip(t, words)]
                    return i
        self.known.append(words)
        return len(self.known) - 1


def bias_slopes(n_heads):
    ratio = 2.0 ** (-8.0 / n_heads)
    return np.power(ratio, np.arange(n_heads)).astype(np.float32)


def distance(length):
    """distance[i, j] = i - j, number of lines between query i and key j"""
    p = np.arange(length)
    return (p[:, None] - p[None, :]).astype(np.float32)


def biased_attention(params, x):
    """x [B, L, D].  Causal.  score = q.k / sqrt(d) - slope * distance"""
    q, k, v = (jnp.einsum("bld,dhe->bhle", x, params[n]) for n in ("q", "k", "v"))
    n_heads, length, d = q.shape[1:]
    dist = distance(length)
    s = jnp.einsum("bhie,bhje->bhij", q, k) / np.sqrt(d)
    s = s - bias_slopes(n_heads)[:, None, None] * dist
    s = jnp.where(dist >= 0, s, -jnp.inf)
    w = jax.nn.softmax(s, axis=-1)
    y = jnp.einsum("bhij,bhje->bihe", w, v)
    return jnp.einsum("bihe,hed->bid", y, params["o"])


def init(rng, vocab, dim=32, heads=4, layers=2):
    e = dim // heads
    r = lambda *s: jnp.asarray(rng.normal(0, dim ** -0.5, s), jnp.float32)
    one = lambda: {"q": r(dim, heads, e), "k": r(dim, heads, e), "v": r(dim, heads, e),
                   "o": r(heads, e, dim), "up": r(dim, 2 * dim), "down": r(2 * dim, dim)}
    return {"emb": r(vocab, dim), "layers": [one() for _ in range(layers)]}


def norm(x):
    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6)


@jax.jit
def surprise(params, ids):
    """[B, L] ids -> [B, L-1] negative log likelihood of every line but the first"""
    x = params["emb"][ids[:, :-1]]
    for p in params["layers"]:
        x = x + biased_attention(p, norm(x))
        x = x + jax.nn.relu(norm(x) @ p["up"]) @ p["down"]
    lp = jax.nn.log_softmax(norm(x) @ params["emb"].T)
    return -jnp.take_along_axis(lp, ids[:, 1:, None], -1)[..., 0]


@partial(jax.jit, static_argnames="lr")
def sgd(params, ids, lr=0.1):
    loss, g = jax.value_and_grad(lambda p: surprise(p, ids).mean())(params)
    return jax.tree.map(lambda p, d: p - lr * d, params, g), loss


def windows(ids, n, hop):
    return np.stack([ids[i:i + n] for i in range(0, len(ids) - n + 1, hop)])


if __name__ == "__main__":
    t = Templates()
    text = [f"conn {i} open from 10.0.0.{i}" if i % 3 else f"gc took {i} ms" for i in range(60)]
    ids = np.array([t.id_of(s) for s in text])
    params = init(np.random.default_rng(0), len(t.known) + 1)
    for _ in range(5):
        params, loss = sgd(params, jnp.asarray(windows(ids, 12, 6)))
    print(len(t.known), float(loss))
