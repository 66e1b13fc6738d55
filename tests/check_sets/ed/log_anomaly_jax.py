"""Anomaly score of server logs: a tiny causal LM over log templates (JAX).

ids   (B, T) int32 template ids
nll   (B, T-1) surprise of each template given the ones before it

Rotary positions: with half = d // 2, feature i and feature i + half form a pair, and the
pair is turned by  t * base ** (-2 * i / d)  for i = 0 .. half-1.  So the logits of query
t and key s depend on t - s, not on t and s themselves.  Causal softmax, 1/sqrt(d).
"""
import jax
import jax.numpy as jnp


def params(rng, vocab, D=32, H=2, layers=2):
    keys = jax.random.split(rng, layers * 4 + 1)
    r = lambda k, *s: jax.random.normal(k, s) * s[0] ** -0.5
    return {
        "emb": r(keys[0], vocab, D) * vocab ** 0.5 * 0.3,
        "layers": [
            {
                "qkv": r(keys[4 * i + 1], D, 3, H, D // H),
                "o": r(keys[4 * i + 2], D, D),
                "a": r(keys[4 * i + 3], D, 2 * D),
                "b": r(keys[4 * i + 4], 2 * D, D),
            }
            for i in range(layers)
        ],
    }


def rope(x, base=10000.0):
    """x (B, T, H, d)"""
    T, d = x.shape[1], x.shape[-1]
    freq = base ** (-jnp.arange(0, d, 2) / d)
    angle = jnp.arange(T)[:, None] * jnp.repeat(freq, 2)[None, :]
    angle = angle[None, :, None, :]
    x1, x2 = jnp.split(x, 2, axis=-1)
    turned = jnp.concatenate([-x2, x1], axis=-1)
    return x * jnp.cos(angle) + turned * jnp.sin(angle)


def rms(x):
    return x / jnp.sqrt((x ** 2).mean(-1, keepdims=True) + 1e-6)


def mix(w, x):
    B, T, D = x.shape
    q, k, v = jnp.moveaxis(jnp.einsum("btd,dchk->btchk", x, w["qkv"]), 2, 0)
    q, k = rope(q), rope(k)
    s = jnp.einsum("bthk,bshk->bhts", q, k) / jnp.sqrt(q.shape[-1])
    s = jnp.where(jnp.tril(jnp.ones((T, T), bool)), s, -jnp.inf)
    y = jnp.einsum("bhts,bshk->bthk", jax.nn.softmax(s, -1), v)
    return y.reshape(B, T, D) @ w["o"]


def lm(p, ids):
    x = p["emb"][ids]
    for w in p["layers"]:
        x = x + mix(w, rms(x))
        x = x + jax.nn.silu(rms(x) @ w["a"]) @ w["b"]
    return rms(x) @ p["emb"].T


def surprise(p, ids):
    lp = jax.nn.log_softmax(lm(p, ids[:, :-1]))
    return -jnp.take_along_axis(lp, ids[:, 1:, None], axis=-1)[..., 0]
