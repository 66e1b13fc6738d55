"""AlphaFold 2, supplement algorithm 7: MSA row-wise gated self-attention with pair bias."""
import jax
import jax.numpy as jnp


def init(key, c_m=16, c_z=8, c=4, heads=3):
    ks = jax.random.split(key, 7)
    lin = lambda k, *s: jax.random.normal(k, s) / jnp.sqrt(s[0])
    return {"q": lin(ks[0], c_m, heads, c), "k": lin(ks[1], c_m, heads, c), "v": lin(ks[2], c_m, heads, c),
            "gate": lin(ks[3], c_m, heads, c), "gate_b": jnp.ones((heads, c)),
            "bias": lin(ks[4], c_z, heads), "out": lin(ks[5], heads * c, c_m), "out_b": jnp.zeros(c_m)}


def layer_norm(x):
    mu = x.mean(-1, keepdims=True)
    return (x - mu) * jax.lax.rsqrt(((x - mu) ** 2).mean(-1, keepdims=True) + 1e-5)


def msa_row_attention(params, msa, pair, msa_mask):
    """msa (S, R, c_m), pair (R, R, c_z), msa_mask (S, R) of 0/1 -> update (S, R, c_m)."""
    m = layer_norm(msa)
    q = jnp.einsum("sra,ahc->srhc", m, params["q"])
    k = jnp.einsum("sra,ahc->srhc", m, params["k"])
    v = jnp.einsum("sra,ahc->srhc", m, params["v"])
    b = jnp.einsum("ijz,zh->hij", layer_norm(pair), params["bias"])
    logits = jnp.einsum("sihc,sjhc->shij", q, k) / jnp.sqrt(q.shape[-1]) + b[None]
    logits = jnp.where(msa_mask[:, None, None, :] > 0, logits, -1e9)
    w = jax.nn.softmax(logits, axis=-1)
    o = jnp.einsum("shij,sjhc->sihc", w, v)
    g = jax.nn.sigmoid(jnp.einsum("sra,ahc->srhc", m, params["gate"]) + params["gate_b"])
    o = (g * o).reshape(*msa.shape[:2], -1)
    return o @ params["out"] + params["out_b"]
