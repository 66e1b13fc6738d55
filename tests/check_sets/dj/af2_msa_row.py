"""AlphaFold 2, supplementary Algorithm 7: MSA row-wise gated self-attention with pair bias.

    a_sij = softmax_j( q_si . k_sj / sqrt(c) + b_ij )
    o_si  = g_si * sum_j a_sij v_sj

A residue that is missing (msa_mask 0) must not be read by anyone.
"""
import jax
import jax.numpy as jnp


def init_params(rng, c_m, c_z, heads, c):
    keys = iter(jax.random.split(rng, 7))
    w = lambda *s: jax.random.normal(next(keys), s) / jnp.sqrt(s[0])
    return {
        "q": w(c_m, heads, c), "k": w(c_m, heads, c), "v": w(c_m, heads, c),
        "b": w(c_z, heads),
        "g_w": w(c_m, heads, c), "g_b": jnp.ones((heads, c)),
        "o_w": jax.random.normal(next(keys), (heads, c, c_m)) / jnp.sqrt(heads * c),
        "o_b": jnp.zeros(c_m),
    }


def _norm(x, eps=1e-5):
    return (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + eps)


def msa_row_attention_with_pair_bias(params, m, z, msa_mask):
    """
    m        (B, S, L, c_m)  MSA representation: S sequences, L residues
    z        (B, L, L, c_z)  pair representation, z[:, i, j] biases i reading j
    msa_mask (B, S, L)       float, 1 = residue present, 0 = gap/padding; the first
                             residue of every sequence is present
    returns  (B, S, L, c_m), the update (residual added by the caller)
    """
    m = _norm(m)
    q = jnp.einsum("bslm,mhc->bslhc", m, params["q"])
    k = jnp.einsum("bslm,mhc->bslhc", m, params["k"])
    v = jnp.einsum("bslm,mhc->bslhc", m, params["v"])
    gate = jax.nn.sigmoid(jnp.einsum("bslm,mhc->bslhc", m, params["g_w"]) + params["g_b"])
    bias = jnp.einsum("bijz,zh->bhij", _norm(z), params["b"])

    mask_bias = 1e9 * (msa_mask - 1.0)
    mask_bias = mask_bias[:, :, None, :, None]

    logits = jnp.einsum("bsihc,bsjhc->bshij", q * q.shape[-1] ** -0.5, k)
    logits = logits + bias[:, None] + mask_bias
    weights = jax.nn.softmax(logits, axis=-1)
    out = gate * jnp.einsum("bshij,bsjhc->bsihc", weights, v)
    return jnp.einsum("bsihc,hcm->bsim", out, params["o_w"]) + params["o_b"]
