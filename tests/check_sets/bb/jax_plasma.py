"""Disruption forecaster for tokamak shots (JAX). Length extrapolation by ALiBi:
trained on 256 samples, deployed on 2048."""
import jax
import jax.numpy as jnp


def alibi(heads: int, T: int, S: int) -> jax.Array:
    """(heads, T, S) bias  -m_h * distance.  heads must be a power of two.

    m_h = 2^(-8 h / heads) for h = 1 .. heads, i.e. 1/2, 1/4, ... 1/256 with 8 heads.
    Queries are the last T of the S positions.
    """
    if heads & (heads - 1):
        raise ValueError("power of two, please")
    h = jnp.arange(heads)
    m = 2.0 ** (-8.0 * h / heads)
    dist = (jnp.arange(S - T, S)[:, None] - jnp.arange(S)[None, :])
    return -m[:, None, None] * dist


def causal_attention(params, x, history=None, heads=4):
    """x (T, d). history: (k, v), both (P, heads, d/heads), of the samples before x.

    returns y (T, d), new history
    """
    T, d = x.shape
    qkv = (x @ params["w_qkv"] + params["b_qkv"]).reshape(T, 3, heads, d // heads)
    q, k, v = qkv[:, 0], qkv[:, 1], qkv[:, 2]
    if history is not None:
        k = jnp.concatenate([history[0], k])
        v = jnp.concatenate([history[1], v])
    S = k.shape[0]
    s = jnp.einsum("thd,shd->hts", q, k) / jnp.sqrt(d / heads)
    s = s + alibi(heads, T, S)
    ahead = jnp.arange(S)[None, :] > jnp.arange(S - T, S)[:, None]
    w = jax.nn.softmax(jnp.where(ahead, -jnp.inf, s), axis=-1)
    y = jnp.einsum("hts,shd->thd", w, v).reshape(T, d)
    return y @ params["w_o"] + params["b_o"], (k, v)


def init_layer(key, d):
    k1, k2 = jax.random.split(key)
    return {"w_qkv": jax.random.normal(k1, (d, 3 * d)) * d ** -0.5, "b_qkv": jnp.zeros(3 * d),
            "w_o": jax.random.normal(k2, (d, d)) * d ** -0.5, "b_o": jnp.zeros(d)}


def init(key, signals=14, d=32, depth=2):
    ks = jax.random.split(key, depth + 2)
    return {"inp": jax.random.normal(ks[0], (signals, d)) * signals ** -0.5,
            "layers": [init_layer(k, d) for k in ks[1:-1]],
            "out": jax.random.normal(ks[-1], (d,)) * d ** -0.5}


def risk(params, shot, heads=4):
    """shot (T, signals) -> (T,) probability of a disruption within 30 ms"""
    x = shot @ params["inp"]
    for p in params["layers"]:
        x = x + causal_attention(p, x, heads=heads)[0]
        x = (x - x.mean(-1, keepdims=True)) / (x.std(-1, keepdims=True) + 1e-5)
    return jax.nn.sigmoid(x @ params["out"])


def alarm_time(prob, dt=1e-3, level=0.8):
    hit = prob > level
    return jnp.where(hit.any(), hit.argmax() * dt, jnp.nan)


if __name__ == "__main__":
    p = init(jax.random.PRNGKey(0))
    print(risk(p, jax.random.normal(jax.random.PRNGKey(1), (50, 14)))[-3:])
