"""Local attention of Gemma-2 in plain JAX (re-implementation for reading, not for speed).

local_attention(q, k, v, positions, window, cap, query_scale)

q          [B, T, N, H]  N query heads, already rotated
k, v       [B, S, K, H]  K kv heads, N % K == 0; head n uses kv head n // (N // K)
positions  ([B, T], [B, S]) int32 positions of the queries and of the keys; a key with
           position < 0 is an unused cache slot
window     a query at position p sees the keys at p - window + 1 ... p  (window keys, itself
           among them)
cap        logits are soft-capped: cap * tanh(logits / cap)
query_scale  multiplied to q (Gemma-2 27B uses (d_model / n_heads) ** -0.5 here, so it is an
           argument and is not derived from H)

Every query's own position must be among the keys.  Returns [B, T, N, H].
"""
import jax
import jax.numpy as jnp

K_MASK = -2.3819763e38


def local_attention(q, k, v, positions, window, cap, query_scale):
    B, T, N, H = q.shape
    K = k.shape[2]
    q_pos, k_pos = positions

    q = (q * query_scale).reshape(B, T, K, N // K, H)
    logits = jnp.einsum('BTKGH,BSKH->BTKGS', q, k)
    logits = jnp.tanh(logits / cap) * cap

    dist = q_pos[:, :, None] - k_pos[:, None, :]
    ok = (dist >= 0) & (dist < window) & (k_pos >= 0)[:, None, :]
    logits = jnp.where(ok[:, :, None, None, :], logits, K_MASK)

    probs = jax.nn.softmax(logits.astype(jnp.float32), axis=-1).astype(q.dtype)
    out = jnp.einsum('BTKGS,BSKH->BTKGH', probs, v)
    return out.reshape(B, T, N, H)
