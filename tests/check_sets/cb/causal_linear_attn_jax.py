"""Causal linear attention (Katharopoulos et al., 2020, "Transformers are RNNs") in plain JAX.

Three faces of the same operator, used for the pixel-by-pixel MNIST runs:
  * `parallel`  - cumulative sums over the whole sequence (training),
  * `scan`      - O(1) memory in the sequence length, via lax.scan,
  * `step`      - one token with a carried state (sampling).
There is no softmax: weights are phi(q_i).phi(k_j) / sum_j' phi(q_i).phi(k_j'), j' <= i,
with phi(x) = elu(x) + 1, and position i sees itself.
"""
from functools import partial

import jax
import jax.numpy as jnp


def phi(x):
    return jax.nn.elu(x) + 1.0


def init_state(n_heads, d_k, d_v, dtype=jnp.float32):
    return jnp.zeros((n_heads, d_k, d_v), dtype), jnp.zeros((n_heads, d_k), dtype)


def step(state, qkv, eps=1e-6):
    """state (S [H, Dk, Dv], z [H, Dk]); q, k [H, Dk]; v [H, Dv] -> new state, y [H, Dv]"""
    S, z = state
    q, k, v = qkv
    q, k = phi(q), phi(k)
    S = S + jnp.einsum("hd,he->hde", k, v)
    z = z + k
    num = jnp.einsum("hd,hde->he", q, S)
    den = jnp.einsum("hd,hd->h", q, z)
    return (S, z), num / (den + eps)[:, None]


def scan(q, k, v):
    """q, k [T, H, Dk], v [T, H, Dv] -> [T, H, Dv]"""
    state = init_state(q.shape[1], q.shape[2], v.shape[2], q.dtype)
    _, y = jax.lax.scan(step, state, (q, k, v))
    return y


def parallel(q, k, v, eps=1e-6):
    q, k = phi(q), phi(k)
    S = jnp.cumsum(jnp.einsum("thd,the->thde", k, v), axis=0)
    z = jnp.cumsum(k, axis=0)
    return jnp.einsum("thd,thde->the", q, S) / (jnp.einsum("thd,thd->th", q, z) + eps)[..., None]


def init_layer(key, d_model, n_heads):
    ks = jax.random.split(key, 4)
    s = d_model ** -0.5
    shape = (d_model, n_heads, d_model // n_heads)
    return {
        "wq": s * jax.random.normal(ks[0], shape),
        "wk": s * jax.random.normal(ks[1], shape),
        "wv": s * jax.random.normal(ks[2], shape),
        "wo": s * jax.random.normal(ks[3], (n_heads, d_model // n_heads, d_model)),
    }


@partial(jax.jit, static_argnames="mode")
def linear_attention_layer(params, x, mode="scan"):
    """x [B, T, D] -> [B, T, D], residual included."""
    def one(seq):
        q = jnp.einsum("td,dhk->thk", seq, params["wq"])
        k = jnp.einsum("td,dhk->thk", seq, params["wk"])
        v = jnp.einsum("td,dhk->thk", seq, params["wv"])
        y = scan(q, k, v) if mode == "scan" else parallel(q, k, v)
        return jnp.einsum("thk,hkd->td", y, params["wo"])
    return x + jax.vmap(one)(x)


if __name__ == "__main__":
    p = init_layer(jax.random.PRNGKey(0), 32, 4)
    x = jax.random.normal(jax.random.PRNGKey(1), (2, 10, 32))
    a, b = (linear_attention_layer(p, x, mode=m) for m in ("scan", "parallel"))
    print(jnp.abs(a - b).max())
