"""Parts of the Evoformer in plain JAX: gated attention, MSA rows, triangles.

Parameters are dicts in the layout of the published checkpoint:
query_w, key_w, value_w [c_in, heads, c_head]; gating_w [c_in, heads, c_head], gating_b
[heads, c_head]; output_w [heads, c_head, c_out], output_b [c_out].
"""
import jax
import jax.numpy as jnp


def glorot(key, shape, fan_in):
    return jax.random.normal(key, shape) * fan_in ** -0.5


def init_gated_attention(key, c_q, c_m, heads, c_head, c_out):
    k = jax.random.split(key, 5)
    return {
        "query_w": glorot(k[0], (c_q, heads, c_head), c_q),
        "key_w": glorot(k[1], (c_m, heads, c_head), c_m),
        "value_w": glorot(k[2], (c_m, heads, c_head), c_m),
        "gating_w": 0.1 * glorot(k[3], (c_q, heads, c_head), c_q),
        "gating_b": jnp.ones((heads, c_head)),
        "output_w": glorot(k[4], (heads, c_head, c_out), heads * c_head),
        "output_b": jnp.zeros((c_out,)),
    }


def layer_norm(p, x, eps=1e-5):
    mu = x.mean(-1, keepdims=True)
    var = ((x - mu) ** 2).mean(-1, keepdims=True)
    return (x - mu) * jax.lax.rsqrt(var + eps) * p["scale"] + p["offset"]


def gated_attention(p, q_data, m_data, bias, nonbatched_bias=None):
    """q_data [N, Q, c_q], m_data [N, K, c_m], bias [N, 1, 1, K], nonbatched_bias [heads, Q, K]."""
    c_head = p["query_w"].shape[-1]
    q = jnp.einsum("bqa,ahc->bqhc", q_data, p["query_w"]) * c_head ** (-0.5)
    k = jnp.einsum("bka,ahc->bkhc", m_data, p["key_w"])
    v = jnp.einsum("bka,ahc->bkhc", m_data, p["value_w"])
    logits = jnp.einsum("bqhc,bkhc->bhqk", q, k) + bias
    if nonbatched_bias is not None:
        logits += jnp.expand_dims(nonbatched_bias, axis=0)
    weights = jax.nn.softmax(logits)
    avg = jnp.einsum("bhqk,bkhc->bqhc", weights, v)
    gate = jax.nn.sigmoid(jnp.einsum("bqc,chv->bqhv", q_data, p["gating_w"]) + p["gating_b"])
    return jnp.einsum("bqhc,hco->bqo", avg * gate, p["output_w"]) + p["output_b"]


def msa_row_attention_with_pair_bias(p, msa_act, msa_mask, pair_act):
    """msa_act [S, R, c_m]; msa_mask [S, R], 1 = residue is there; pair_act [R, R, c_z]."""
    bias = (1e9 * (msa_mask - 1.0))[:, None, None, :]
    x = layer_norm(p["query_norm"], msa_act)
    z = layer_norm(p["feat_2d_norm"], pair_act)
    pair_bias = jnp.einsum("qkc,ch->hqk", z, p["feat_2d_weights"])
    return gated_attention(p["attention"], x, x, bias, pair_bias)


def triangle_attention(p, pair_act, pair_mask, per_row=True):
    """Around the starting node (per_row) or the ending node."""
    if not per_row:
        pair_act = jnp.swapaxes(pair_act, -2, -3)
        pair_mask = jnp.swapaxes(pair_mask, -1, -2)
    bias = (1e9 * (pair_mask - 1.0))[:, None, None, :]
    z = layer_norm(p["query_norm"], pair_act)
    tri_bias = jnp.einsum("qkc,ch->hqk", z, p["feat_2d_weights"])
    out = gated_attention(p["attention"], z, z, bias, tri_bias)
    return out if per_row else jnp.swapaxes(out, -2, -3)


def msa_column_global(p, msa_act, msa_mask):
    """Global attention along a column: one averaged query for all heads' shared keys."""
    x = layer_norm(p["query_norm"], jnp.swapaxes(msa_act, 0, 1))      # [R, S, c]
    m = jnp.swapaxes(msa_mask, 0, 1)[..., None]
    q_avg = (x * m).sum(1) / (m.sum(1) + 1e-10)
    q = jnp.einsum("bc,chv->bhv", q_avg, p["query_w"]) * p["query_w"].shape[-1] ** -0.5
    k, v = x @ p["key_w"], x @ p["value_w"]
    logits = jnp.einsum("bhc,bkc->bhk", q, k) + (1e9 * (m[..., 0] - 1.0))[:, None, :]
    avg = jnp.einsum("bhk,bkc->bhc", jax.nn.softmax(logits, -1), v)
    gate = jax.nn.sigmoid(jnp.einsum("bkc,chv->bkhv", x, p["gating_w"]) + p["gating_b"])
    out = jnp.einsum("bkhc,hco->bko", avg[:, None] * gate, p["output_w"]) + p["output_b"]
    return jnp.swapaxes(out, 0, 1)


def transition(p, act):
    x = layer_norm(p["norm"], act)
    return jax.nn.relu(x @ p["w1"] + p["b1"]) @ p["w2"] + p["b2"]
