"""Decoder self-attention with T5 relative buckets, one head at a time under vmap.

T5 v1.1 weights: the 1/sqrt(d) is folded into the initialisation, logits are not scaled.
"""
import jax
import jax.numpy as jnp
import numpy as np


def bucket(rel, n_buckets=32, far=128):
    """rel = key - query; one-directional version."""
    n = np.maximum(-rel, 0)
    exact = n_buckets // 2
    big = exact + (np.log(np.maximum(n, 1) / exact) / np.log(far / exact) * (n_buckets - exact)).astype(int)
    return np.where(n < exact, n, np.minimum(big, n_buckets - 1))


def head(x, wq, wk, wv, bias):
    L = x.shape[0]
    logits = (x @ wq) @ (x @ wk).T + bias
    seen = jnp.tril(jnp.ones((L, L), dtype=bool), k=1)
    logits = jnp.where(seen, logits, -1e9)
    return jax.nn.softmax(logits, axis=-1) @ (x @ wv)


def decoder_self_attention(params, x):
    """x (B, L, D) -> (B, L, D), autoregressive

    params: q, k, v (H, D, d); o (H, d, D); rel (32, H)
    """
    L = x.shape[1]
    r = np.arange(L)[None, :] - np.arange(L)[:, None]
    bias = params["rel"][bucket(r)].transpose(2, 0, 1)               # (H, L, L)
    over_heads = jax.vmap(head, in_axes=(None, 0, 0, 0, 0))
    over_batch = jax.vmap(over_heads, in_axes=(0, None, None, None, None))
    y = over_batch(x, params["q"], params["k"], params["v"], bias)   # (B, H, L, d)
    return jnp.einsum("bhld,hdm->blm", y, params["o"])
