"""Batched decoding kernel of the in-house inference server (reference version, jax.numpy)."""
import jax
import jax.numpy as jnp


def grouped_decode(q, k_cache, v_cache, lengths):
    """
    q        (B, H, d)         one new query per sequence
    k_cache  (B, Hkv, S, d)    consecutive query heads share one cached head
    v_cache  (B, Hkv, S, d)
    lengths  (B,) int          valid entries in the cache, new token included (>= 1)
    returns  (B, H, d)
    """
    B, H, d = q.shape
    Hkv, S = k_cache.shape[1], k_cache.shape[2]
    rep = H // Hkv
    k, v = (jnp.tile(z, (1, rep, 1, 1)) for z in (k_cache, v_cache))
    s = jnp.einsum("bhd,bhsd->bhs", q.astype(jnp.float32), k.astype(jnp.float32)) / jnp.sqrt(d)
    live = jnp.arange(S)[None, :] < lengths[:, None]
    s = jnp.where(live[:, None, :], s, -jnp.inf)
    w = jax.nn.softmax(s, axis=-1)
    return jnp.einsum("bhs,bhsd->bhd", w, v.astype(jnp.float32)).astype(q.dtype)
