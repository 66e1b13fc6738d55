"""Attention for one query and one head, then vmapped three times.

Blog post "think in one example, let JAX add the axes". The innermost function looks at
one query vector and one head; `attend` maps it over queries, heads and batch.

    q (B, Lq, H, d)   k (B, Lk, H, d)   v (B, Lk, H, e)
    qpos (B, Lq), kpos (B, Lk)  integer positions in the document; -1 in kpos = padding

A query sees the keys at its own position and before (kpos <= qpos) which are not padding.
A query that sees nothing gets zeros. Scaled by 1/sqrt(d). Returns (B, Lq, H, e).
"""
import jax
import jax.numpy as jnp


def one(q, qp, k, kp, v):
    """q (d,), qp (), k (Lk, d), kp (Lk,), v (Lk, e) -> (e,)"""
    see = (kp >= 0) & (kp <= qp)
    s = (k @ q) / jnp.sqrt(q.shape[-1])
    top = jnp.max(jnp.where(see, s, -jnp.inf))
    top = jnp.where(jnp.isfinite(top), top, 0.0)
    w = jnp.where(see, jnp.exp(jnp.where(see, s - top, 0.0)), 0.0)
    total = w.sum()
    return (w / jnp.where(total > 0, total, 1.0)) @ v


over_queries = jax.vmap(one, in_axes=(0, 0, None, None, None))
over_heads = jax.vmap(over_queries, in_axes=(1, None, 1, None, 1), out_axes=1)
over_batch = jax.vmap(over_heads)


@jax.jit
def attend(q, k, v, qpos, kpos):
    return over_batch(q, qpos, k, kpos, v)
