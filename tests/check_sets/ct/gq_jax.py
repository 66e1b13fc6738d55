"""Grouped-query attention, pure JAX, used by the weather rollout model."""
from functools import partial

import jax
import jax.numpy as jnp


def init(key, dim=32, n_q=6, n_kv=2, hd=8):
    """Weights as a dict. Query heads h*r .. h*r+r-1 (r = n_q // n_kv) belong to kv head h."""
    a, b, c, d = jax.random.split(key, 4)
    s = dim ** -0.5
    return {
        "wq": jax.random.normal(a, (dim, n_q, hd)) * s,
        "wk": jax.random.normal(b, (dim, n_kv, hd)) * s,
        "wv": jax.random.normal(c, (dim, n_kv, hd)) * s,
        "wo": jax.random.normal(d, (n_q, hd, dim)) * (n_q * hd) ** -0.5,
    }


@partial(jax.jit, static_argnames=("causal",))
def gqa(params, x, causal=True):
    """x: (B, T, dim) -> (B, T, dim). Causal unless told otherwise.

    Consecutive query heads share a key/value head, see `init`.
    """
    q = jnp.einsum("btm,mhd->bhtd", x, params["wq"])
    k = jnp.einsum("btm,mhd->bhtd", x, params["wk"])
    v = jnp.einsum("btm,mhd->bhtd", x, params["wv"])
    r = q.shape[1] // k.shape[1]
    k = jnp.tile(k, (1, r, 1, 1))
    v = jnp.tile(v, (1, r, 1, 1))
    logits = jnp.einsum("bhqd,bhkd->bhqk", q, k) * q.shape[-1] ** -0.5
    if causal:
        t = x.shape[1]
        ok = jnp.tril(jnp.ones((t, t), dtype=bool))
        logits = jnp.where(ok, logits, jnp.finfo(logits.dtype).min)
    w = jax.nn.softmax(logits, axis=-1)
    y = jnp.einsum("bhqk,bhkd->bqhd", w, v)
    return jnp.einsum("bqhd,hdm->bqm", y, params["wo"])


if __name__ == "__main__":
    p = init(jax.random.PRNGKey(0))
    print(gqa(p, jnp.ones((2, 5, 32))).shape)
