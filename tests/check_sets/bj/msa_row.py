"""Gated row-wise MSA attention with pair bias (AlphaFold 2, Algorithm 7).

Inference-only NumPy used for checking the exported weights.
msa [S, R, c_m]: S sequences, R residues;  pair [R, R, c_z];
mask [S, R], 1.0 = residue present, 0.0 = gap/padding.
"""
import numpy as np

BIG = 1e9


def _layernorm(x, w, b):
    m = x.mean(-1, keepdims=True)
    s = x.var(-1, keepdims=True)
    return (x - m) / np.sqrt(s + 1e-5) * w + b


def _sigmoid(x):
    return 1.0 / (1.0 + np.exp(-x))


def _softmax(x):
    x = np.exp(x - np.amax(x, axis=-1, keepdims=True))
    return x / np.sum(x, axis=-1, keepdims=True)


def msa_row_attention(params, msa, pair, mask):
    """Attention runs along the residues of each sequence separately."""
    m = _layernorm(msa, params["query_norm/scale"], params["query_norm/offset"])
    z = _layernorm(pair, params["feat_2d_norm/scale"], params["feat_2d_norm/offset"])

    key_dim = params["query_w"].shape[-1]
    q = np.einsum("sra,ahc->srhc", m, params["query_w"]) * key_dim ** (-0.5)
    k = np.einsum("sra,ahc->srhc", m, params["key_w"])
    v = np.einsum("sra,ahc->srhc", m, params["value_w"])
    nonbatched = np.einsum("qkc,ch->hqk", z, params["feat_2d_weights"])
    bias = (BIG * (mask - 1.0))[:, None, None, :]

    logits = np.einsum("sqhc,skhc->shqk", q, k) + bias
    logits = logits + nonbatched[None]
    weights = _softmax(logits)
    avg = np.einsum("shqk,skhc->sqhc", weights, v)
    gate = _sigmoid(np.einsum("sra,ahc->srhc", m, params["gating_w"]) + params["gating_b"])
    return np.einsum("srhc,hco->sro", avg * gate, params["output_w"]) + params["output_b"]


def msa_transition(params, msa):
    m = _layernorm(msa, params["ln/scale"], params["ln/offset"])
    return np.maximum(m @ params["w1"] + params["b1"], 0.0) @ params["w2"] + params["b2"]


def outer_product_mean(left, right, mask, w):
    """[S,R,a], [S,R,b] -> [R,R,o]"""
    left, right = left * mask[..., None], right * mask[..., None]
    norm = np.einsum("si,sj->ij", mask, mask)[..., None] + 1e-3
    return np.einsum("sia,sjb,abo->ijo", left, right, w) / norm


def init_row_params(c_m=16, c_z=8, heads=2, dim=4, seed=0):
    g = np.random.default_rng(seed)
    n = lambda *s: g.normal(size=s) / np.sqrt(s[0])
    return {
        "query_norm/scale": np.ones(c_m), "query_norm/offset": np.zeros(c_m),
        "feat_2d_norm/scale": np.ones(c_z), "feat_2d_norm/offset": np.zeros(c_z),
        "query_w": n(c_m, heads, dim), "key_w": n(c_m, heads, dim), "value_w": n(c_m, heads, dim),
        "gating_w": n(c_m, heads, dim), "gating_b": np.ones((heads, dim)),
        "feat_2d_weights": n(c_z, heads),
        "output_w": n(heads, dim, c_m), "output_b": np.zeros(c_m),
    }


if __name__ == "__main__":
    r = np.random.default_rng(2)
    print(msa_row_attention(init_row_params(), r.normal(size=(3, 5, 16)), r.normal(size=(5, 5, 8)), np.ones((3, 5))).shape)
