"""Causal linear attention in JAX: training form (chunks) and generation form (RNN)."""
from functools import partial

import jax
import jax.numpy as jnp
from jax import lax


def phi(x):
    return jax.nn.elu(x) + 1.0


def rnn_step(state, qkv):
    """state = (S [d, m], z [d]); one position."""
    S, z = state
    q, k, v = qkv
    S = S + jnp.outer(k, v)
    z = z + k
    y = (q @ S) / jnp.maximum(q @ z, 1e-6)
    return (S, z), y


def init_state(d, m, dtype=jnp.float32):
    return jnp.zeros((d, m), dtype), jnp.zeros((d,), dtype)


def _one_head_scan(q, k, v):
    q, k = phi(q), phi(k)
    _, y = lax.scan(rnn_step, init_state(q.shape[-1], v.shape[-1], v.dtype), (q, k, v))
    return y


def _one_head_chunked(q, k, v, *, chunk):
    """Same numbers as the scan.  Length must be a multiple of ``chunk``."""
    L, d = q.shape
    n = L // chunk
    q = phi(q).reshape(n, chunk, d)
    k = phi(k).reshape(n, chunk, d)
    v = v.reshape(n, chunk, -1)

    kv = jnp.einsum("ncd,ncm->ndm", k, v)
    ks = k.sum(1)
    before_kv = jnp.cumsum(kv, 0) - kv          # everything of earlier chunks
    before_k = jnp.cumsum(ks, 0) - ks

    inside = jnp.tril(jnp.einsum("nid,njd->nij", q, k))
    num = jnp.einsum("nij,njm->nim", inside, v) + jnp.einsum("nid,ndm->nim", q, before_kv)
    den = inside.sum(-1) + jnp.einsum("nid,nd->ni", q, before_k)
    return (num / jnp.maximum(den, 1e-6)[..., None]).reshape(L, -1)


@partial(jax.jit, static_argnames=("chunk",))
def causal_linear_attention(q, k, v, chunk=None):
    """q, k: [B, L, H, d], v: [B, L, H, m]  ->  [B, L, H, m].

    y_i = phi(q_i)^T sum_{j<=i} phi(k_j) v_j^T  /  phi(q_i)^T sum_{j<=i} phi(k_j),   phi = elu + 1
    """
    f = _one_head_scan if chunk is None else partial(_one_head_chunked, chunk=chunk)
    over_heads = jax.vmap(f, in_axes=1, out_axes=1)
    return jax.vmap(over_heads)(q, k, v)


if __name__ == "__main__":
    ks = jax.random.split(jax.random.PRNGKey(0), 3)
    q, k, v = (jax.random.normal(s, (2, 12, 3, 5)) for s in ks)
    a = causal_linear_attention(q, k, v)
    b = causal_linear_attention(q, k, v, chunk=4)
    print(a.shape, float(jnp.abs(a - b).max()))
