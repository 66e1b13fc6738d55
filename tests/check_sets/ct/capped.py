"""Logit-capped attention core in JAX (arithmetic puzzles model)."""
import jax
import jax.numpy as jnp


def visible(positions_q, positions_k, horizon=None):
    """(Lq, Lk) bool, True = may be seen: not later, and at most `horizon`
    steps back if a horizon is given."""
    gap = positions_q[:, None] - positions_k[None, :]
    ok = gap >= 0
    if horizon is not None:
        ok = ok & (gap <= horizon)
    return ok


def attend(q, k, v, cap=3.0, horizon=None):
    """
    q, k, v: (B, L, H, D), returns (B, L, H, D). Causal.

    Scores are scaled by 1/sqrt(D) and squashed to (-cap, cap) by
    cap * tanh(score / cap). Hidden keys get exactly zero weight.
    cap=None turns the squashing off.
    """
    L, D = q.shape[1], q.shape[-1]
    where = jnp.arange(L)
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k).astype(jnp.float32) / jnp.sqrt(D)
    ok = visible(where, where, horizon)
    scores = jnp.where(ok[None, None], scores, -jnp.inf)
    if cap is not None:
        scores = cap * jnp.tanh(scores / cap)
    probs = jax.nn.softmax(scores, axis=-1).astype(v.dtype)
    return jnp.einsum("bhqk,bkhd->bqhd", probs, v)


attend_jit = jax.jit(attend, static_argnames=("cap", "horizon"))
