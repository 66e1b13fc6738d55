"""One decoding step of grouped-query attention over a padded KV cache."""
import functools

import jax
import jax.numpy as jnp


@functools.partial(jax.jit, static_argnames=("sm_scale",))
def gqa_decode_step(q, k_cache, v_cache, lengths, sm_scale=None):
    """
    Args:
      q:        [batch, q_heads, head_dim], the query of the newest token.
      k_cache:  [batch, max_len, kv_heads, head_dim], newest token already written.
      v_cache:  [batch, max_len, kv_heads, head_dim]
      lengths:  [batch] int, number of filled cache slots, always >= 1.
      sm_scale: defaults to head_dim ** -0.5.
    Returns:
      [batch, q_heads, head_dim].  Query heads g*r .. g*r+r-1 read kv head g,
      where r = q_heads // kv_heads.
    """
    b, nq, d = q.shape
    s, nkv = k_cache.shape[1:3]
    if nq % nkv:
        raise ValueError(f"{nq} query heads do not divide over {nkv} kv heads")
    scale = d ** -0.5 if sm_scale is None else sm_scale
    qg = q.reshape(b, nkv, nq // nkv, d)
    logits = jnp.einsum("bgrd,bsgd->bgrs", qg, k_cache).astype(jnp.float32) * scale
    filled = jnp.arange(s)[None, :] < lengths[:, None]
    logits = jnp.where(filled[:, None, None, :], logits, -jnp.inf)
    p = jax.nn.softmax(logits, axis=-1)
    # unused slots may hold garbage
    v = jnp.where(filled[:, :, None, None], v_cache, 0)
    out = jnp.einsum("bgrs,bsgd->bgrd", p.astype(v.dtype), v)
    return out.reshape(b, nq, d)
