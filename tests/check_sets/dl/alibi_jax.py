"""ALiBi attention over a fixed-capacity cache, in JAX (port of our MPT serving code).

The bias is linear in the distance and lowers the logits of far tokens: with slope m_h > 0,
logit = q.k / sqrt(d) + bias, where bias is 0 for the token itself and falls by m_h with
every step back.  Slopes 2**(-8 (h+1) / H), H a power of two.
"""
import jax
import jax.numpy as jnp


def alibi_slopes(n_heads):
    assert n_heads & (n_heads - 1) == 0
    return 2.0 ** (-8.0 * jnp.arange(1, n_heads + 1) / n_heads)


def append(cache, k, v):
    """cache: (k (S, H, d), v (S, H, d), n), k and v (T, H, d) -> the cache with n + T tokens."""
    ck, cv, n = cache
    ck = jax.lax.dynamic_update_slice_in_dim(ck, k, n, axis=0)
    cv = jax.lax.dynamic_update_slice_in_dim(cv, v, n, axis=0)
    return ck, cv, n + k.shape[0]


def attend(q, k, v, cache):
    """One sequence (vmap for batches).  q, k, v: (T, H, d), the next T tokens; cache as in
    append(), with n + T <= S.  Causal.  Returns out (T, H, d) and the new cache."""
    t, h, d = q.shape
    start = cache[2]
    cache = append(cache, k, v)
    ck, cv, _ = cache
    i = start + jnp.arange(t)[:, None]
    j = jnp.arange(ck.shape[0])[None, :]
    logits = jnp.einsum("thd,shd->hts", q, ck) / jnp.sqrt(d)
    bias = alibi_slopes(h)[:, None, None] * (i - j)
    logits = jnp.where(j <= i, logits + bias, -jnp.inf)
    return jnp.einsum("hts,shd->thd", jax.nn.softmax(logits, axis=-1), cv), cache
