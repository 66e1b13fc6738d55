"""Decoder-only LM in functional JAX (params are nested dicts), logits soft-capped."""
from functools import partial

import jax
import jax.numpy as jnp

CFG = {"vocab": 256, "width": 32, "heads": 4, "layers": 2, "attn_cap": 20.0, "final_cap": 30.0}


def cap(x, c):
    return c * jnp.tanh(x / c)


def dense(key, n_in, n_out):
    return jax.random.normal(key, (n_in, n_out)) * n_in ** -0.5


def init_params(key, cfg=CFG):
    w = cfg["width"]
    params = {"embed": jax.random.normal(key, (cfg["vocab"], w)) * 0.02, "layers": []}
    for _ in range(cfg["layers"]):
        key, a, b, c, d = jax.random.split(key, 5)
        params["layers"].append({
            "qkv": dense(a, w, 3 * w), "o": dense(b, w, w),
            "up": dense(c, w, 4 * w), "down": dense(d, 4 * w, w),
            "n1": jnp.ones(w), "n2": jnp.ones(w),
        })
    return params


def rms(x, g):
    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * g


def attend(x, p, heads, attn_cap, pad=None):
    """Causal self attention with soft-capped scores.

    x [B, T, W]; pad [B, T] bool, True = padding on the right. Padding and future
    positions get exactly no weight.
    """
    B, T, W = x.shape
    q, k, v = jnp.split(x @ p["qkv"], 3, axis=-1)
    fold = lambda t: t.reshape(B, T, heads, W // heads)
    q, k, v = fold(q), fold(k), fold(v)
    s = jnp.einsum("bqhd,bkhd->bhqk", q, k) / jnp.sqrt(W // heads)
    hidden = ~jnp.tril(jnp.ones((T, T), bool))[None, None]
    if pad is not None:
        hidden = hidden | pad[:, None, None, :]
    s = jnp.where(hidden, -1e9, s)
    s = cap(s, attn_cap)
    a = jax.nn.softmax(s.astype(jnp.float32), axis=-1).astype(x.dtype)
    return jnp.einsum("bhqk,bkhd->bqhd", a, v).reshape(B, T, W) @ p["o"]


@partial(jax.jit, static_argnames=("heads", "attn_cap", "final_cap"))
def forward(params, tokens, heads=4, attn_cap=20.0, final_cap=30.0):
    x = params["embed"][tokens] * CFG["width"] ** 0.5
    pad = tokens == 0
    for p in params["layers"]:
        x = x + attend(rms(x, p["n1"]), p, heads, attn_cap, pad)
        h = jax.nn.gelu(rms(x, p["n2"]) @ p["up"])
        x = x + h @ p["down"]
    return cap(x @ params["embed"].T, final_cap)


def loss(params, tokens):
    logp = jax.nn.log_softmax(forward(params, tokens[:, :-1]))
    tgt = tokens[:, 1:]
    nll = -jnp.take_along_axis(logp, tgt[..., None], -1)[..., 0]
    m = tgt != 0
    return (nll * m).sum() / m.sum()


if __name__ == "__main__":
    pr = init_params(jax.random.PRNGKey(0))
    print(loss(pr, jnp.array([[5, 6, 7, 8, 0], [9, 3, 0, 0, 0]])))
