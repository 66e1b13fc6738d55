"""Click-stream model in JAX: causal linear attention as a scan (constant memory per user).

linear_attention(q, k, v, state=None) -> (y, state)
    q, k  (T, H, d);  v (T, H, e)
    state (S, z) with S (H, d, e) and z (H, d) left by earlier calls, None = nothing yet
With phi(x) = elu(x) + 1,

    y_t = sum_{j<=t} (phi(q_t).phi(k_j)) v_j / sum_{j<=t} phi(q_t).phi(k_j)

where j runs over all tokens seen so far, the current one included.  There is no softmax
and no 1/sqrt(d) in this kernel form.
"""
import jax
import jax.numpy as jnp


def phi(x):
    return jnp.where(x > 0, x + 1.0, jnp.exp(jnp.minimum(x, 0.0)))


def linear_attention(q, k, v, state=None):
    H, d = q.shape[1:]
    if state is None:
        state = (jnp.zeros((H, d, v.shape[-1])), jnp.zeros((H, d)))

    def tick(carry, qkv):
        S, z = carry
        qt, kt, vt = qkv
        S = S + kt[:, :, None] * vt[:, None, :]
        z = z + kt
        num = jnp.einsum("hd,hde->he", qt, S)
        den = jnp.einsum("hd,hd->h", qt, z)
        return (S, z), num / den[:, None]

    state, y = jax.lax.scan(tick, state, (phi(q), phi(k), v))
    return y, state
