"""Causal linear attention ("Transformers are RNNs", Katharopoulos et al. 2020) as a lax.scan.

The state is (S, z): S = sum_j phi(k_j) v_j^T, z = sum_j phi(k_j). phi(x) = elu(x) + 1.
"""
from dataclasses import dataclass

import jax
import jax.numpy as jnp


@dataclass(frozen=True)
class LinAttnConfig:
    dim: int = 32
    heads: int = 4
    eps: float = 1e-6


def phi(x):
    return jax.nn.elu(x) + 1.0


def init_params(rng, cfg: LinAttnConfig):
    names = ("wq", "wk", "wv", "wo")
    return {n: jax.random.normal(r, (cfg.dim, cfg.dim)) * cfg.dim ** -0.5
            for n, r in zip(names, jax.random.split(rng, 4))}


def recurrent_step(state, qkv_t, eps=1e-6):
    """state: S (H, d, e), z (H, d); q_t, k_t (H, d); v_t (H, e)."""
    S, z = state
    q, k, v = qkv_t
    q, k = phi(q), phi(k)
    S = S + k[:, :, None] * v[:, None, :]
    z = z + k
    num = jnp.einsum("hd,hde->he", q, S)
    den = jnp.einsum("hd,hd->h", q, z)
    return (S, z), num / (den[:, None] + eps)


def causal_linear_attention(q, k, v, eps=1e-6, state=None):
    """q, k (T, H, d), v (T, H, e). Returns the outputs (T, H, e) and the final state."""
    if state is None:
        H, d = k.shape[1:]
        state = (jnp.zeros((H, d, v.shape[-1])), jnp.zeros((H, d)))
    state, out = jax.lax.scan(lambda s, x: recurrent_step(s, x, eps), state, (q, k, v))
    return out, state


def layer(params, x, cfg: LinAttnConfig, lengths=None):
    """x (B, T, dim); frames at or beyond lengths[b] are padding (causality keeps them out of real ones)."""
    B, T, _ = x.shape
    split = lambda a: a.reshape(B, T, cfg.heads, cfg.dim // cfg.heads)
    q, k, v = (split(x @ params[n]) for n in ("wq", "wk", "wv"))
    out, _ = jax.vmap(lambda a, b, c: causal_linear_attention(a, b, c, cfg.eps))(q, k, v)
    out = out.reshape(B, T, cfg.dim) @ params["wo"]
    if lengths is not None:
        out = jnp.where((jnp.arange(T)[None] < lengths[:, None])[..., None], out, 0.0)
    return out


def generate_step(params, x_t, state, cfg: LinAttnConfig):
    """One token at inference, x_t (dim,). Constant memory, that is the point."""
    hd = cfg.dim // cfg.heads
    q, k, v = ((x_t @ params[n]).reshape(cfg.heads, hd) for n in ("wq", "wk", "wv"))
    state, y = recurrent_step(state, (q, k, v), cfg.eps)
    return state, y.reshape(-1) @ params["wo"]
