"""Llama attention in JAX for TPU experiments, functional style."""
import jax
import jax.numpy as jnp


def rope(x, base=10000.0):
    """x (B, L, n, d), positions 0..L-1, half-split pairs (i, i + d/2)."""
    L, d = x.shape[1], x.shape[-1]
    inv = base ** (-jnp.arange(0, d, 2) / d)
    ang = jnp.arange(L)[:, None] * inv
    c, s = jnp.cos(ang)[None, :, None], jnp.sin(ang)[None, :, None]
    a, b = jnp.split(x, 2, axis=-1)
    return jnp.concatenate([a * c - b * s, b * c + a * s], axis=-1)


def llama_block_attention(params, x, n_heads, n_kv):
    """Causal grouped-query self-attention.

    params  wq (D, H*d), wk (D, G*d), wv (D, G*d), wo (H*d, D)
    x       (B, L, D) float32 or bfloat16
    returns (B, L, D) in x's dtype

    H = n_heads, G = n_kv, H a multiple of G.  Query heads g*H/G .. (g+1)*H/G-1 share
    kv head g.  Token i sees tokens 0..i.  Scores and softmax are float32 whatever
    the dtype of the activations; scale 1/sqrt(d).
    """
    B, L, D = x.shape
    d = params["wq"].shape[1] // n_heads
    rep = n_heads // n_kv
    q = rope((x @ params["wq"]).reshape(B, L, n_heads, d))
    k = rope((x @ params["wk"]).reshape(B, L, n_kv, d))
    v = (x @ params["wv"]).reshape(B, L, n_kv, d)

    k = jnp.concatenate([k] * rep, axis=1).reshape(B, L, n_heads, d)
    v = jnp.concatenate([v] * rep, axis=1).reshape(B, L, n_heads, d)

    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k).astype(jnp.float32) * d ** -0.5
    causal = jnp.tril(jnp.ones((L, L), bool))
    scores = jnp.where(causal, scores, -jnp.inf)
    probs = jax.nn.softmax(scores.astype(jnp.bfloat16), axis=-1).astype(x.dtype)
    out = jnp.einsum("bhqk,bkhd->bqhd", probs, v)
    return out.reshape(B, L, n_heads * d) @ params["wo"]
