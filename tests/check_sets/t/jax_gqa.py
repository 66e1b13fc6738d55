import jax
import jax.numpy as jnp


def init(key, d_model, n_heads, n_kv_heads, head_dim):
    kq, kk, kv, ko = jax.random.split(key, 4)
    s = d_model**-0.5
    return {
        "wq": jax.random.normal(kq, (d_model, n_heads, head_dim)) * s,
        "wk": jax.random.normal(kk, (d_model, n_kv_heads, head_dim)) * s,
        "wv": jax.random.normal(kv, (d_model, n_kv_heads, head_dim)) * s,
        "wo": jax.random.normal(ko, (n_heads, head_dim, d_model)) * s,
    }


def gqa(params, x):
    """Causal grouped-query attention.

    x: (batch, seq, d_model).  Query heads are grouped as in Llama: with n_heads = 8 and
    n_kv_heads = 2, query heads 0-3 read kv head 0 and query heads 4-7 read kv head 1.
    """
    q = jnp.einsum("bld,dhk->bhlk", x, params["wq"])
    k = jnp.einsum("bld,dhk->bhlk", x, params["wk"])
    v = jnp.einsum("bld,dhk->bhlk", x, params["wv"])
    rep = q.shape[1] // k.shape[1]
    k = jnp.tile(k, (1, rep, 1, 1))
    v = jnp.tile(v, (1, rep, 1, 1))

    L = x.shape[1]
    scores = jnp.einsum("bhqk,bhsk->bhqs", q, k) / jnp.sqrt(q.shape[-1])
    keep = jnp.arange(L)[:, None] >= jnp.arange(L)[None, :]
    scores = jnp.where(keep, scores, -jnp.inf)
    w = jax.nn.softmax(scores, axis=-1)
    return jnp.einsum("bhqs,bhsk,hkd->bqd", w, v, params["wo"])


if __name__ == "__main__":
    p = init(jax.random.PRNGKey(0), 32, 8, 2, 4)
    print(gqa(p, jnp.ones((2, 5, 32))).shape)
