"""T5 v1.1 blocks as pure functions over nested dicts of arrays (no framework).

Note on scaling: T5 does not divide the logits by sqrt(d_kv); the factor is
absorbed into the initialisation of the query kernel (see `init_attn`).
The position bias is made once, by the first layer, and passed on.
"""
import functools
import math

import jax
import jax.numpy as jnp

NEG = -1e9  # logits are float32, always


def init_attn(key, d_model, n_heads, d_kv, n_buckets=None):
    ks = jax.random.split(key, 5)
    p = {
        "q": jax.random.normal(ks[0], (d_model, n_heads, d_kv)) * (d_model * d_kv) ** -0.5,
        "k": jax.random.normal(ks[1], (d_model, n_heads, d_kv)) * d_model ** -0.5,
        "v": jax.random.normal(ks[2], (d_model, n_heads, d_kv)) * d_model ** -0.5,
        "o": jax.random.normal(ks[3], (n_heads, d_kv, d_model)) * (n_heads * d_kv) ** -0.5,
    }
    if n_buckets is not None:
        p["rel_bias"] = jax.random.normal(ks[4], (n_buckets, n_heads)) * d_model ** -0.5
    return p


def relative_bucket(rel, bidirectional, n_buckets=32, max_distance=128):
    """rel = key position - query position."""
    ret = jnp.zeros_like(rel)
    if bidirectional:
        n_buckets //= 2
        ret = ret + (rel > 0) * n_buckets
        rel = jnp.abs(rel)
    else:
        rel = -jnp.minimum(rel, 0)
    exact = n_buckets // 2
    far = exact + (
        jnp.log(jnp.maximum(rel, 1).astype(jnp.float32) / exact)
        / math.log(max_distance / exact)
        * (n_buckets - exact)
    ).astype(jnp.int32)
    far = jnp.minimum(far, n_buckets - 1)
    return ret + jnp.where(rel < exact, rel, far)


def position_bias(p, q_len, k_len, bidirectional):
    ctx = jnp.arange(q_len)[:, None] + (k_len - q_len)
    mem = jnp.arange(k_len)[None, :]
    table = p["rel_bias"]
    b = relative_bucket(mem - ctx, bidirectional, n_buckets=table.shape[0])
    return jnp.transpose(table[b], (2, 0, 1))[None]


def attn(p, x, mem=None, bias=0.0, key_mask=None, causal=False):
    """x [b, q, m], mem [b, k, m] (None: self-attention), key_mask [b, k] with 1 = token, 0 = pad."""
    mem = x if mem is None else mem
    q = jnp.einsum("bqm,mhd->bhqd", x, p["q"])
    k = jnp.einsum("bkm,mhd->bhkd", mem, p["k"])
    v = jnp.einsum("bkm,mhd->bhkd", mem, p["v"])
    logits = jnp.einsum("bhqd,bhkd->bhqk", q, k).astype(jnp.float32) + bias
    allowed = jnp.ones((1, 1) + logits.shape[-2:], bool)
    if causal:
        nq, nk = logits.shape[-2:]
        allowed = allowed & jnp.tri(nq, nk, nk - nq, dtype=bool)
    if key_mask is not None:
        allowed = allowed & (key_mask > 0)[:, None, None, :]
    logits = jnp.where(allowed, logits, NEG)
    w = jax.nn.softmax(logits, axis=-1).astype(v.dtype)
    return jnp.einsum("bhqk,bhkd,hdm->bqm", w, v, p["o"])


def rms(x, g, eps=1e-6):
    return x * jax.lax.rsqrt(jnp.mean(jnp.square(x), -1, keepdims=True) + eps) * g


def gated_ff(p, x):
    return (jax.nn.gelu(x @ p["wi_0"]) * (x @ p["wi_1"])) @ p["wo"]


@functools.partial(jax.jit, static_argnames=("causal",))
def encoder_stack(layers, x, key_mask, causal=False):
    bias = position_bias(layers[0]["attn"], x.shape[1], x.shape[1], bidirectional=not causal)
    for lyr in layers:
        x = x + attn(lyr["attn"], rms(x, lyr["ln1"]), bias=bias, key_mask=key_mask, causal=causal)
        x = x + gated_ff(lyr["ff"], rms(x, lyr["ln2"]))
    return x
