"""Sliding-window layer of the log assistant, JAX, pure functions over a params pytree.

* grouped queries: ``n_q`` heads share ``n_kv`` key/value heads, consecutive query heads
  belong to the same kv head;
* window: a token sees itself and the ``window - 1`` tokens before it;
* learned sinks (as in gpt-oss): every query head has one extra logit that takes part in
  the softmax but carries no value, so a head may choose to read almost nothing.
"""
from functools import partial

import jax
import jax.numpy as jnp


def init_params(key, dim=32, n_q=4, n_kv=2, head_dim=8):
    ks = jax.random.split(key, 5)
    s = dim ** -0.5
    return {
        "q": s * jax.random.normal(ks[0], (dim, n_q, head_dim)),
        "k": s * jax.random.normal(ks[1], (dim, n_kv, head_dim)),
        "v": s * jax.random.normal(ks[2], (dim, n_kv, head_dim)),
        "o": (n_q * head_dim) ** -0.5 * jax.random.normal(ks[3], (n_q, head_dim, dim)),
        "sinks": jax.random.normal(ks[4], (n_q,)),
        "norm": jnp.ones((dim,)),
    }


def rms_norm(x, w, eps=1e-5):
    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + eps) * w


@partial(jax.jit, static_argnames=("window",))
def sink_window_layer(params, x, window=3):
    """x: [batch, time, dim] -> same shape, residual included."""
    b, t, _ = x.shape
    h = rms_norm(x, params["norm"])
    n_q, d = params["q"].shape[1:]
    n_kv = params["k"].shape[1]

    q = jnp.einsum("btc,cnd->btnd", h, params["q"]).reshape(b, t, n_kv, n_q // n_kv, d)
    k = jnp.einsum("btc,cnd->btnd", h, params["k"])
    v = jnp.einsum("btc,cnd->btnd", h, params["v"])

    logits = jnp.einsum("bqkgd,bskd->bkgqs", q, k).astype(jnp.float32) * d ** -0.5
    ago = jnp.arange(t)[:, None] - jnp.arange(t)[None, :]
    visible = (ago >= 0) & (ago < window)
    logits = jnp.where(visible, logits, -jnp.inf)

    sink = params["sinks"].reshape(1, n_kv, n_q // n_kv, 1, 1)
    sink = jnp.broadcast_to(sink, logits.shape[:-1] + (1,))
    probs = jax.nn.softmax(jnp.concatenate([logits, sink], axis=-1), axis=-1)
    probs = probs[..., :-1].astype(x.dtype)

    ctx = jnp.einsum("bkgqs,bskd->bqkgd", probs, v).reshape(b, t, n_q, d)
    return x + jnp.einsum("btnd,ndc->btc", ctx, params["o"])
