"""Incremental decoding in plain JAX: several new tokens at once behind a cache."""
import jax
import jax.numpy as jnp


def extend(params, cache, x):
    """x: (T, D) new tokens, which come after the S tokens in the cache; each may see the cache, itself and the new ones before it.

    cache: {"k": (S, H, d), "v": (S, H, d)}; params: {"wq", "wk", "wv": (D, H, d), "wo": (H, d, D)}
    Returns the output (T, D) and the longer cache.
    """
    q = jnp.einsum("tD,Dhd->thd", x, params["wq"])
    k = jnp.concatenate([cache["k"], jnp.einsum("tD,Dhd->thd", x, params["wk"])])
    v = jnp.concatenate([cache["v"], jnp.einsum("tD,Dhd->thd", x, params["wv"])])
    scores = jnp.einsum("thd,shd->hts", q, k) / jnp.sqrt(q.shape[-1])
    T, S = scores.shape[1:]
    visible = jnp.tril(jnp.ones((T, S), dtype=bool))
    scores = jnp.where(visible, scores, -1e30)
    y = jnp.einsum("hts,shd->thd", jax.nn.softmax(scores, axis=-1), v)
    return jnp.einsum("thd,hdD->tD", y, params["wo"]), {"k": k, "v": v}
