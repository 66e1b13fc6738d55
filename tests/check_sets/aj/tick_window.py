"""Local causal attention over bars, JAX. Research code of the intraday desk.

``Hyper.window`` is the number of bars an output may read, the current bar counted in:
window=1 reads only itself, window=60 itself and the 59 bars before.
"""
from typing import NamedTuple, Any

import jax
import jax.numpy as jnp
from jax import random


class Hyper(NamedTuple):
    n_feat: int = 12
    d: int = 32
    heads: int = 4
    window: int = 60
    layers: int = 2
    horizon: int = 3


Params = Any


def dense_init(key, n_in, n_out):
    return {"w": random.normal(key, (n_in, n_out)) / jnp.sqrt(n_in), "b": jnp.zeros(n_out)}


def dense(p, x):
    return x @ p["w"] + p["b"]


def rms(x, g):
    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * g


def local_mask(n, window):
    """[n, n] bool, True = bar i reads bar j"""
    i = jnp.arange(n)[:, None]
    j = jnp.arange(n)[None, :]
    return (j <= i) & (i - j <= window)


def local_attention(p: Params, x, hp: Hyper, halted=None):
    """x [B, T, d]. halted [B, T] True while trading was suspended: such bars are read by nobody
    but themselves."""
    B, T, D = x.shape
    hd = D // hp.heads
    q, k, v = (dense(p[n], x).reshape(B, T, hp.heads, hd) for n in "qkv")
    allow = local_mask(T, hp.window)[None]
    if halted is not None:
        allow = allow & (~halted[:, None, :] | jnp.eye(T, dtype=bool)[None])
    logits = jnp.einsum("bihd,bjhd->bhij", q, k) * hd ** -0.5
    logits = jnp.where(allow[:, None], logits, -jnp.inf)
    w = jax.nn.softmax(logits, axis=-1)
    y = jnp.einsum("bhij,bjhd->bihd", w, v).reshape(B, T, D)
    return dense(p["o"], y)


def init(key, hp: Hyper) -> Params:
    k_in, k_out, *ks = random.split(key, 2 + hp.layers)
    layers = []
    for k in ks:
        a = random.split(k, 6)
        layers.append({"attn": {n: dense_init(a[i], hp.d, hp.d) for i, n in enumerate("qkvo")},
                       "up": dense_init(a[4], hp.d, 4 * hp.d), "down": dense_init(a[5], 4 * hp.d, hp.d),
                       "g1": jnp.ones(hp.d), "g2": jnp.ones(hp.d)})
    return {"in": dense_init(k_in, hp.n_feat, hp.d), "out": dense_init(k_out, hp.d, hp.horizon), "layers": layers}


def forward(params: Params, bars, hp: Hyper, halted=None):
    x = dense(params["in"], bars)
    for p in params["layers"]:
        x = x + local_attention(p["attn"], rms(x, p["g1"]), hp, halted)
        x = x + dense(p["down"], jax.nn.silu(dense(p["up"], rms(x, p["g2"]))))
    return dense(params["out"], x)


def sharpe_loss(params, bars, fwd_ret, hp):
    pos = jnp.tanh(forward(params, bars, hp)[..., 0])
    pnl = pos[:, :-1] * fwd_ret[:, 1:]
    cost = 1e-4 * jnp.abs(jnp.diff(pos, axis=1))
    r = pnl - cost
    return -r.mean() / (r.std() + 1e-6)


if __name__ == "__main__":
    hp = Hyper(window=16)
    params = init(random.PRNGKey(0), hp)
    bars = random.normal(random.PRNGKey(1), (8, 128, hp.n_feat))
    print(sharpe_loss(params, bars, 0.001 * random.normal(random.PRNGKey(2), (8, 128)), hp))
