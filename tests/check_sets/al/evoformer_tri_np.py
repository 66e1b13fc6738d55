"""NumPy transcription of parts of the Evoformer (Jumper et al. 2021, SI algorithms 11-15).

Pair representation z[i, j, c], i and j residues.  Parameters are flat dicts as in the
released `params_model_1.npz` (shapes (c, h, d) for the projections).
"""
import numpy as np


def _ln(x, g, b, eps=1e-5):
    m = x.mean(-1, keepdims=True)
    return (x - m) / np.sqrt(x.var(-1, keepdims=True) + eps) * g + b


def _sigmoid(x):
    return np.where(x >= 0, 1 / (1 + np.exp(-np.abs(x))), np.exp(-np.abs(x)) / (1 + np.exp(-np.abs(x))))


def _softmax(x):
    x = x - x.max(-1, keepdims=True)
    x = np.exp(x)
    return x / x.sum(-1, keepdims=True)


def triangle_multiplication_outgoing(z, p):
    """Algorithm 11."""
    z = _ln(z, p["ln_g"], p["ln_b"])
    a = _sigmoid(z @ p["ga"]) * (z @ p["wa"])
    b = _sigmoid(z @ p["gb"]) * (z @ p["wb"])
    g = _sigmoid(z @ p["gz"])
    x = np.einsum("ikc,jkc->ijc", a, b)
    return g * (_ln(x, p["ln2_g"], p["ln2_b"]) @ p["wz"])


def triangle_attention_starting_node(z, pair_mask, p):
    """Algorithm 13: edges (i, j) attend to edges (i, k) that share the starting node i.

    The third edge of the triangle, (j, k), gives the bias:
        a_ijk = softmax_k( q_ij . k_ik / sqrt(c) + b_jk )
        o_ij  = sigmoid(g_ij) * sum_k a_ijk v_ik
    pair_mask[i, k] is 1 where both residues exist.
    """
    z = _ln(z, p["ln_g"], p["ln_b"])
    q = np.einsum("ijc,chd->ijhd", z, p["query_w"]) * p["query_w"].shape[-1] ** -0.5
    k = np.einsum("ikc,chd->ikhd", z, p["key_w"])
    v = np.einsum("ikc,chd->ikhd", z, p["value_w"])
    bias = z @ p["feat_2d_weights"]                          # [n, n, h]
    gate = _sigmoid(np.einsum("ijc,chd->ijhd", z, p["gating_w"]) + p["gating_b"])

    logits = np.einsum("ijhd,ikhd->ihjk", q, k)
    logits = logits + np.transpose(bias, (0, 2, 1))[:, :, None, :]
    logits = logits + 1e9 * (pair_mask[:, None, None, :] - 1.0)
    a = _softmax(logits)
    o = np.einsum("ihjk,ikhd->ijhd", a, v) * gate
    return np.einsum("ijhd,hdc->ijc", o, p["output_w"]) + p["output_b"]


def triangle_attention_ending_node(z, pair_mask, p):
    """Algorithm 14, by symmetry."""
    y = triangle_attention_starting_node(z.swapaxes(0, 1), pair_mask.T, p)
    return y.swapaxes(0, 1)


def pair_transition(z, p):
    z = _ln(z, p["ln_g"], p["ln_b"])
    return np.maximum(z @ p["w1"] + p["b1"], 0) @ p["w2"] + p["b2"]
