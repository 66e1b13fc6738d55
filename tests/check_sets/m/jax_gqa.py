import jax.numpy as jnp
from jax import nn


def grouped_query(params, x, *, num_heads=4, num_kv_heads=2):
    """params: dict with "q" (C, H*D), "k" and "v" (C, G*D), "o" (H*D, C).  x (B, T, C); causal."""
    b, t, _ = x.shape
    q = (x @ params["q"]).reshape(b, t, num_kv_heads, num_heads // num_kv_heads, -1)
    k = (x @ params["k"]).reshape(b, t, num_kv_heads, -1)
    v = (x @ params["v"]).reshape(b, t, num_kv_heads, -1)
    scores = jnp.einsum("btgrd,bsgd->bgrts", q, k) / jnp.sqrt(q.shape[-1])
    scores = jnp.where(jnp.tril(jnp.ones((t, t), dtype=bool)), scores, jnp.finfo(scores.dtype).min)
    weights = nn.softmax(scores, axis=-1)
    y = jnp.einsum("bgrts,bsgd->btgrd", weights, v)
    return y.reshape(b, t, -1) @ params["o"]
