import jax
import jax.numpy as jnp


def init(key, dim, n_q, n_kv):
    d = dim // n_q
    ks = jax.random.split(key, 4)
    s = dim ** -0.5
    return {
        "q": jax.random.normal(ks[0], (dim, n_q, d)) * s,
        "k": jax.random.normal(ks[1], (dim, n_kv, d)) * s,
        "v": jax.random.normal(ks[2], (dim, n_kv, d)) * s,
        "o": jax.random.normal(ks[3], (n_q, d, dim)) * s,
    }


def widen(t, n_q):
    """(B, L, n_kv, d) -> (B, L, n_q, d): every kv head serves n_q // n_kv
    neighbouring query heads."""
    B, L, n_kv, d = t.shape
    return jnp.tile(t, (1, n_q // n_kv, 1, 1)).reshape(B, L, n_q, d)


def gquery(params, x):
    """Causal grouped-query attention. x (B, L, dim) -> (B, L, dim)."""
    q = jnp.einsum("bld,dhe->blhe", x, params["q"])
    k = widen(jnp.einsum("bld,dhe->blhe", x, params["k"]), q.shape[2])
    v = widen(jnp.einsum("bld,dhe->blhe", x, params["v"]), q.shape[2])
    s = jnp.einsum("blhe,bmhe->bhlm", q, k) / jnp.sqrt(q.shape[-1])
    L = x.shape[1]
    s = jnp.where(jnp.tril(jnp.ones((L, L), bool)), s, -jnp.inf)
    y = jnp.einsum("bhlm,bmhe->blhe", jax.nn.softmax(s, axis=-1), v)
    return jnp.einsum("blhe,hed->bld", y, params["o"])
