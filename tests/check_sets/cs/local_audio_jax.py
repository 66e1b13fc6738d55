from functools import partial

import jax
import jax.numpy as jnp


@partial(jax.jit, static_argnames="radius")
def local_frame_attention(q, k, v, radius=3):
    """Bidirectional local attention over audio frames, [B, T, H, D] each.

    Frame i attends to every frame j with |i - j| <= radius, itself included,
    that is to at most 2 * radius + 1 frames.
    """
    q = q / jnp.sqrt(q.shape[-1]).astype(q.dtype)
    s = jnp.einsum("bqhd,bkhd->bhqk", q, k)
    t = jnp.arange(q.shape[1])
    near = jnp.abs(t[:, None] - t[None, :]) <= radius
    s = jnp.where(near, s, -jnp.inf)
    p = jax.nn.softmax(s.astype(jnp.float32), axis=-1).astype(v.dtype)
    return jnp.einsum("bhqk,bkhd->bqhd", p, v)
