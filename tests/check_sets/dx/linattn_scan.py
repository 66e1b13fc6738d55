"""Causal linear attention (Katharopoulos et al. 2020, "Transformers are RNNs") with lax.scan.

    phi(x) = elu(x) + 1
    out_t  = phi(q_t)^T S_t / (phi(q_t) . z_t)
    S_t    = sum_{j<=t} phi(k_j) v_j^T ,   z_t = sum_{j<=t} phi(k_j)

so key j has the weight phi(q_t).phi(k_j) / sum_{i<=t} phi(q_t).phi(k_i) for j <= t, and 0
later. There is no softmax and no 1/sqrt(d) in this model.

q, k: (B, H, T, d)   v: (B, H, T, e)   ->   out (B, H, T, e), state
`state` is the pair (S, z); hand it to the next call to go on where this one stopped.
"""
import jax
import jax.numpy as jnp
from jax import lax


def phi(x):
    return jax.nn.elu(x) + 1.0


def empty_state(q, v):
    b, h, _, d = q.shape
    return jnp.zeros((b, h, d, v.shape[-1]), jnp.float32), jnp.zeros((b, h, d), jnp.float32)


def rnn_attention(q, k, v, state=None):
    if state is None:
        state = empty_state(q, v)

    def tick(carry, qkv):
        S, z = carry
        qt, kt, vt = qkv
        S = S + kt[..., :, None] * vt[..., None, :]
        z = z + kt
        num = jnp.einsum("bhd,bhde->bhe", qt, S)
        den = jnp.einsum("bhd,bhd->bh", qt, z)
        return (S, z), num / den[..., None]

    time_first = lambda a: jnp.moveaxis(a, 2, 0)
    state, out = lax.scan(tick, state, (time_first(phi(q)), time_first(phi(k)), time_first(v)))
    return jnp.moveaxis(out, 0, 2), state
