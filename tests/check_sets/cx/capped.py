import jax
import jax.numpy as jnp


def capped_attention(q, k, v, keep=None, cap=2.0):
    """Protein MSA rows: dot-product attention with bounded logits.

    q [H, n, d], k [H, m, d], v [H, m, e]; keep broadcastable to [H, n, m], False = must get weight 0.
    Logits are q.k / sqrt(d), squashed by cap * tanh(. / cap). Rows without any kept key are zero.
    """
    logits = jnp.einsum("hnd,hmd->hnm", q, k) / jnp.sqrt(q.shape[-1])
    if keep is not None:
        keep = jnp.broadcast_to(keep, logits.shape)
        logits = jnp.where(keep, logits, -jnp.inf)
    logits = cap * jnp.tanh(logits / cap)
    p = jax.nn.softmax(logits, axis=-1)
    if keep is not None:
        p = jnp.where(keep.any(axis=-1, keepdims=True), p, 0.0)
    return jnp.einsum("hnm,hme->hne", p, v)


def self_rows(params, x, keep=None, cap=2.0):
    """x [n, D], params: q, k, v [D, H, d] and o [H, d, D]"""
    q, k, v = (jnp.einsum("nD,Dhd->hnd", x, params[c]) for c in "qkv")
    return jnp.einsum("hnd,hdD->nD", capped_attention(q, k, v, keep, cap), params["o"])
