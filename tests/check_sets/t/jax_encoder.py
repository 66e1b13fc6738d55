"""Pre-norm transformer encoder in plain JAX; parameters are nested dicts."""
import jax
import jax.numpy as jnp


def init_dense(key, n_in, n_out):
    return {"w": jax.random.normal(key, (n_in, n_out)) * n_in**-0.5, "b": jnp.zeros(n_out)}


def init_block(key, d_model, d_ff):
    ks = jax.random.split(key, 6)
    return {
        "attn": {n: init_dense(k, d_model, d_model) for n, k in zip("qkvo", ks)},
        "ff": {"up": init_dense(ks[4], d_model, d_ff), "down": init_dense(ks[5], d_ff, d_model)},
        "ln1": {"g": jnp.ones(d_model), "b": jnp.zeros(d_model)},
        "ln2": {"g": jnp.ones(d_model), "b": jnp.zeros(d_model)},
    }


def dense(p, x):
    return x @ p["w"] + p["b"]


def layer_norm(p, x, eps=1e-5):
    mu = x.mean(-1, keepdims=True)
    return (x - mu) * jax.lax.rsqrt(x.var(-1, keepdims=True) + eps) * p["g"] + p["b"]


def attention(p, x, mask=None, *, n_heads):
    """Multi-head self-attention.

    p: {"q", "k", "v", "o"}, each {"w", "b"}
    x: [batch, length, d_model]
    mask: [batch, length] bool, True for real tokens and False for padding
    """
    B, L, D = x.shape
    q, k, v = (dense(p[n], x).reshape(B, L, n_heads, D // n_heads) for n in "qkv")
    logits = jnp.einsum("bqhd,bkhd->bhqk", q, k) * (D // n_heads) ** -0.5
    if mask is not None:
        logits = jnp.where(mask[:, None, None, :], logits, jnp.finfo(logits.dtype).min)
    probs = jax.nn.softmax(logits, axis=-1)
    out = jnp.einsum("bhqk,bkhd->bqhd", probs, v).reshape(B, L, D)
    return dense(p["o"], out)


def block(params, x, mask=None, *, n_heads=4):
    """One encoder block, [batch, length, d_model] -> the same shape."""
    x = x + attention(params["attn"], layer_norm(params["ln1"], x), mask, n_heads=n_heads)
    h = layer_norm(params["ln2"], x)
    return x + dense(params["ff"]["down"], jax.nn.gelu(dense(params["ff"]["up"], h)))
