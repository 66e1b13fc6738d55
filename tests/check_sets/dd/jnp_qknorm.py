"""Causal multi-head attention with normalised queries and keys, as a pure function."""
import jax
import jax.numpy as jnp


def rms(x, eps=1e-6):
    return x * jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + eps)


def causal_mha(params, x):
    """x: (B, T, D). params: wq, wk, wv of shape (D, H, d), wo of shape (H, d, D), gain (H,)."""
    q = rms(jnp.einsum("btm,mhd->bhtd", x, params["wq"])) * params["gain"][:, None, None]
    k = rms(jnp.einsum("btm,mhd->bhtd", x, params["wk"]))
    v = jnp.einsum("btm,mhd->bhtd", x, params["wv"])
    s = jnp.einsum("bhqd,bhkd->bhqk", q, k) * q.shape[-1] ** -0.5
    t = jnp.arange(x.shape[1])
    s = jnp.where(t[:, None] >= t[None, :], s, -jnp.inf)
    w = jax.nn.softmax(s, axis=-1)
    o = jnp.einsum("bhqk,bhkd->bhqd", w, v)
    return jnp.einsum("bhqd,hdm->bqm", o, params["wo"])
