"""minGPT attention in JAX with a preallocated KV cache (functional, one layer).

The torch code crops a (block, block) tril buffer; with the cache I compare absolute positions
instead.  Used both for the prompt (T > 1, pos = 0) and for single tokens (T = 1), also for a
few tokens at once when a draft is verified.
"""
import jax
import jax.numpy as jnp


def init(key, D):
    ks = jax.random.split(key, 4)
    return {n: jax.random.normal(k, (D, D)) * D ** -0.5 for n, k in zip(("q", "k", "v", "o"), ks)}


def attend(params, x, cache_k, cache_v, pos, n_head):
    """
    x                 (B, T, D)  tokens at the positions pos .. pos + T - 1
    cache_k, cache_v  (B, M, n_head, d), filled up to pos (exclusive)
    pos               int, number of tokens in the cache
    The new keys and values are written at pos; a token may look at the positions up to its own
    one (included).
    returns  y (B, T, D), cache_k, cache_v
    """
    B, T, D = x.shape
    d = D // n_head
    q, k, v = ((x @ params[n]).reshape(B, T, n_head, d) for n in ("q", "k", "v"))
    cache_k = jax.lax.dynamic_update_slice(cache_k, k, (0, pos, 0, 0))
    cache_v = jax.lax.dynamic_update_slice(cache_v, v, (0, pos, 0, 0))

    M = cache_k.shape[1]
    end = pos + T
    q_pos = jnp.arange(T) + end - T + 1
    k_pos = jnp.arange(M)
    # slots that were never written are excluded as well
    visible = (k_pos[None, :] <= q_pos[:, None]) & (k_pos[None, :] < end)

    s = jnp.einsum("bthd,bmhd->bhtm", q, cache_k) * d ** -0.5
    s = jnp.where(visible, s, jnp.finfo(s.dtype).min)
    w = jax.nn.softmax(s, axis=-1)
    y = jnp.einsum("bhtm,bmhd->bthd", w, cache_v).reshape(B, T, D)
    return y @ params["o"], cache_k, cache_v
