import jax
import jax.numpy as jnp


def init_params(key, c_m=16, c_z=12, c=8, n_head=4):
    ks = jax.random.split(key, 7)
    g = lambda k, *s: jax.random.normal(k, s) / jnp.sqrt(s[0])
    return {
        "ln_m": {"scale": jnp.ones(c_m), "offset": jnp.zeros(c_m)},
        "ln_z": {"scale": jnp.ones(c_z), "offset": jnp.zeros(c_z)},
        "q_w": g(ks[0], c_m, n_head, c),
        "k_w": g(ks[1], c_m, n_head, c),
        "v_w": g(ks[2], c_m, n_head, c),
        "feat_2d_w": g(ks[3], c_z, n_head),
        "gate_w": g(ks[4], c_m, n_head, c),
        "gate_b": jnp.ones((n_head, c)),
        "o_w": g(ks[5], n_head * c, c_m).reshape(n_head, c, c_m),
        "o_b": jnp.zeros(c_m),
    }


def layer_norm(p, x):
    mu = x.mean(-1, keepdims=True)
    var = ((x - mu) ** 2).mean(-1, keepdims=True)
    return (x - mu) * jax.lax.rsqrt(var + 1e-5) * p["scale"] + p["offset"]


def msa_row_attention_with_pair_bias(params, msa, msa_mask, pair):
    """Algorithm 7.

    msa: [N_seq, N_res, c_m], msa_mask: [N_seq, N_res] (1 = present), pair: [N_res, N_res, c_z]
    """
    m = layer_norm(params["ln_m"], msa)
    z = layer_norm(params["ln_z"], pair)
    bias = (1e9 * (msa_mask - 1.0))[:, None, None, :]
    nonbatched_bias = jnp.einsum("qkc,ch->hqk", z, params["feat_2d_w"])

    q = jnp.einsum("bqa,ahc->bqhc", m, params["q_w"]) * params["q_w"].shape[-1] ** (-0.5)
    k = jnp.einsum("bka,ahc->bkhc", m, params["k_w"])
    v = jnp.einsum("bka,ahc->bkhc", m, params["v_w"])
    logits = jnp.einsum("bqhc,bkhc->bhqk", q, k) + bias
    logits = logits + nonbatched_bias[None]
    weights = jax.nn.softmax(logits)
    weighted_avg = jnp.einsum("bhqk,bkhc->bqhc", weights, v)
    gate = jax.nn.sigmoid(jnp.einsum("bqa,ahc->bqhc", m, params["gate_w"]) + params["gate_b"])
    out = jnp.einsum("bqhc,hco->bqo", weighted_avg * gate, params["o_w"]) + params["o_b"]
    return msa + out
