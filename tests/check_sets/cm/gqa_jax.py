"""Grouped-query attention for the JAX port of our 1B model."""
import jax
import jax.numpy as jnp


def init_params(key, dim=32, n_q=4, n_kv=2):
    hd = dim // n_q
    kq, kk, kv, ko = jax.random.split(key, 4)
    s = dim ** -0.5
    return {
        "wq": jax.random.normal(kq, (dim, n_q, hd)) * s,
        "wk": jax.random.normal(kk, (dim, n_kv, hd)) * s,
        "wv": jax.random.normal(kv, (dim, n_kv, hd)) * s,
        "wo": jax.random.normal(ko, (n_q, hd, dim)) * s,
    }


def gqa(params, x):
    """Causal grouped-query attention, x (B, T, dim) -> (B, T, dim).

    Consecutive query heads form a group: with 4 query and 2 kv heads, query heads 0 and 1
    use kv head 0, query heads 2 and 3 use kv head 1 (as in the released checkpoint).
    """
    q = jnp.einsum("btd,dhk->bthk", x, params["wq"])
    k = jnp.einsum("btd,dhk->bthk", x, params["wk"])
    v = jnp.einsum("btd,dhk->bthk", x, params["wv"])
    reps = q.shape[2] // k.shape[2]
    k = jnp.tile(k, (1, 1, reps, 1))
    v = jnp.tile(v, (1, 1, reps, 1))
    logits = jnp.einsum("bthk,bshk->bhts", q, k) * q.shape[-1] ** -0.5
    T = x.shape[1]
    causal = jnp.tril(jnp.ones((T, T), dtype=bool))
    logits = jnp.where(causal, logits, jnp.finfo(logits.dtype).min)
    probs = jax.nn.softmax(logits, axis=-1)
    y = jnp.einsum("bhts,bshk->bthk", probs, v)
    return jnp.einsum("bthk,hkd->btd", y, params["wo"])
