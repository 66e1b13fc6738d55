"""Pure-function T5 encoder pieces.  Parameters live in nested dicts as the exporter wrote them.

As in T5 the queries are *not* divided by sqrt(d): the factor is folded in the initialisation
of the query kernel.
"""
import jax
import jax.numpy as jnp


def rms_norm(g, x, eps=1e-6):
    v = jnp.mean(jnp.square(x), -1, keepdims=True)
    return x * jax.lax.rsqrt(v + eps) * g


def bucket(rel, n_buckets=32, max_dist=128):
    """Two-sided buckets for rel = key position - query position."""
    n_buckets //= 2
    out = jnp.where(rel > 0, n_buckets, 0)
    n = jnp.abs(rel)
    exact = n_buckets // 2
    far = exact + (
        jnp.log(jnp.maximum(n, 1) / exact) / jnp.log(max_dist / exact) * (n_buckets - exact)
    ).astype(jnp.int32)
    far = jnp.minimum(far, n_buckets - 1)
    return out + jnp.where(n < exact, n, far)


def position_bias(table, lq, lk):
    rel = jnp.arange(lk)[None, :] - jnp.arange(lq)[:, None]
    return jnp.transpose(table[bucket(rel)], (2, 0, 1))[None]       # 1 h lq lk


def self_attention(params, x, token_mask, bias, n_heads):
    """token_mask [b, l]: 1 word, 0 pad."""
    b, l, _ = x.shape

    def proj(name):
        return (x @ params[name]["kernel"]).reshape(b, l, n_heads, -1)

    q, k, v = proj("q"), proj("k"), proj("v")
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) + bias
    scores = jnp.where(token_mask[:, None, None, :] == 1, scores, jnp.finfo(scores.dtype).min)
    probs = jax.nn.softmax(scores, axis=-1)
    y = jnp.einsum("bhqk,bkhd->bqhd", probs, v).reshape(b, l, -1)
    return y @ params["o"]["kernel"]


def encoder(params, x, token_mask, n_heads):
    l = x.shape[1]
    bias = position_bias(params["rel_table"], l, l)
    for blk in params["blocks"]:
        x = x + self_attention(blk["att"], rms_norm(blk["g1"], x), token_mask, bias, n_heads)
        h = jax.nn.relu(rms_norm(blk["g2"], x) @ blk["wi"])
        x = x + h @ blk["wo"]
    return rms_norm(params["g_out"], x)
