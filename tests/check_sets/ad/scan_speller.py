import jax
import jax.numpy as jnp
from jax import lax, vmap


def peek(s, H, n):
    """one state s (D,), one memory H (T, D), its true length n >= 1 -> context (D,), weights (T,)"""
    t = H @ s / jnp.sqrt(s.size)
    t = jnp.where(jnp.arange(H.shape[0]) < n, t, -jnp.inf)
    a = jax.nn.softmax(t)
    return a @ H, a


def gru(p, x, h):
    xz, xr, xn = jnp.split(x @ p["wx"] + p["b"], 3)
    hz, hr, hn = jnp.split(h @ p["wh"], 3)
    z = jax.nn.sigmoid(xz + hz)
    n = jnp.tanh(xn + jax.nn.sigmoid(xr + hr) * hn)
    return (1 - z) * n + z * h


def speller(p, chars, H, n):
    """Luong decoder with input feeding for a single word; vmap it over the batch.

    chars (U, E) embedded targets, H (T, D) encoder states, n their number.
    """
    D = H.shape[-1]

    def step(carry, c):
        h, feed = carry
        h = gru(p, jnp.concatenate([c, feed]), h)
        ctx, a = peek(h, H @ p["bilinear"], n)
        ctx = a @ H
        feed = jnp.tanh(jnp.concatenate([h, ctx]) @ p["wc"])
        return (h, feed), (feed, a)

    _, (out, maps) = lax.scan(step, (jnp.zeros(D), jnp.zeros(D)), chars)
    return out @ p["vocab"], maps


batched_speller = jax.jit(vmap(speller, in_axes=(None, 0, 0, 0)))


def init(key, E, D, V):
    ks = jax.random.split(key, 5)
    g = lambda k, *s: jax.random.normal(k, s) / s[0] ** 0.5
    return {"wx": g(ks[0], E + D, 3 * D), "wh": g(ks[1], D, 3 * D), "b": jnp.zeros(3 * D),
            "bilinear": g(ks[2], D, D), "wc": g(ks[3], 2 * D, D), "vocab": g(ks[4], D, V)}
