"""MSA row-wise gated self-attention with pair bias (AlphaFold 2, supplementary algorithm 7)."""
import jax
import jax.numpy as jnp


def init_params(key, c_m=16, c_z=10, n_head=4, c=6):
    ks = jax.random.split(key, 7)

    def w(k, *shape):
        return jax.random.normal(k, shape) * shape[0] ** -0.5

    return {
        "q": w(ks[0], c_m, n_head, c),
        "k": w(ks[1], c_m, n_head, c),
        "v": w(ks[2], c_m, n_head, c),
        "gate_w": w(ks[3], c_m, n_head, c),
        "gate_b": jnp.ones((n_head, c)),
        "pair": w(ks[4], c_z, n_head),
        "out_w": jax.random.normal(ks[5], (n_head, c, c_m)) * (n_head * c) ** -0.5,
        "out_b": jnp.zeros((c_m,)),
        "ln_m": (jnp.ones(c_m), jnp.zeros(c_m)),
        "ln_z": (jnp.ones(c_z), jnp.zeros(c_z)),
    }


def layer_norm(x, scale, offset, eps=1e-5):
    mu = x.mean(-1, keepdims=True)
    var = jnp.square(x - mu).mean(-1, keepdims=True)
    return (x - mu) * jax.lax.rsqrt(var + eps) * scale + offset


def msa_row_attention(params, msa, pair, msa_mask):
    """
    Args:
      msa: [N_seq, N_res, c_m]
      pair: [N_res, N_res, c_z], pair[i, j] biases residue i looking at residue j
      msa_mask: [N_seq, N_res], 1 for real residues, 0 for padding
    Returns:
      update of the msa, [N_seq, N_res, c_m] (the residual is added by the caller)
    """
    m = layer_norm(msa, *params["ln_m"])
    z = layer_norm(pair, *params["ln_z"])
    c = params["q"].shape[-1]

    q = jnp.einsum("sia,ahc->sihc", m, params["q"]) * c ** -0.5
    k = jnp.einsum("sja,ahc->sjhc", m, params["k"])
    v = jnp.einsum("sja,ahc->sjhc", m, params["v"])
    gate = jax.nn.sigmoid(jnp.einsum("sia,ahc->sihc", m, params["gate_w"]) + params["gate_b"])

    pair_bias = jnp.einsum("ijz,zh->hij", z, params["pair"])
    mask_bias = 1e9 * (msa_mask.astype(jnp.float32) - 1.0)  # 0 or -1e9
    logits = jnp.einsum("sihc,sjhc->shij", q, k) + pair_bias[None] + mask_bias[:, None, None, :]
    weights = jax.nn.softmax(logits, axis=-1)

    o = gate * jnp.einsum("shij,sjhc->sihc", weights, v)
    return jnp.einsum("sihc,hca->sia", o, params["out_w"]) + params["out_b"]
