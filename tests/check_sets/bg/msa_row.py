"""Row-wise gated self-attention over a multiple sequence alignment, with pair bias.

NumPy port for checking a C++ kernel.  Names follow the AlphaFold 2 supplement, Alg. 7.
"""
import numpy as np


def layer_norm(x, eps=1e-5):
    mu = x.mean(-1, keepdims=True)
    return (x - mu) / np.sqrt(x.var(-1, keepdims=True) + eps)


def sigmoid(x):
    return 1.0 / (1.0 + np.exp(-x))


def _softmax(a):
    a = a - a.max(-1, keepdims=True)
    a = np.exp(a)
    return a / a.sum(-1, keepdims=True)


def msa_row_attention_with_pair_bias(m, z, P, res_mask=None):
    """
    m (s, r, c_m): s sequences, r residues
    z (r, r, c_z): pair representation
    P: parameters wq, wk, wv, wg (c_m, h, c), bg (h, c), wb (c_z, h), wo (h, c, c_m), bo (c_m)
    res_mask (r,): 1 for residues that exist
    returns the update (s, r, c_m), to be added to m
    """
    m_n, z_n = layer_norm(m), layer_norm(z)
    q = np.einsum("sra,ahc->srhc", m_n, P["wq"])
    k = np.einsum("sra,ahc->srhc", m_n, P["wk"])
    v = np.einsum("sra,ahc->srhc", m_n, P["wv"])
    b = np.einsum("ija,ah->hij", z_n, P["wb"])
    g = sigmoid(np.einsum("sra,ahc->srhc", m_n, P["wg"]) + P["bg"])
    c = q.shape[-1]
    logits = np.einsum("sihc,sjhc->shij", q, k) / np.sqrt(c) + b[None]
    if res_mask is not None:
        logits = logits + 1e9 * (res_mask - 1.0)[None, None, None, :]
    a = _softmax(logits)
    o = g * np.einsum("shij,sjhc->sihc", a, v)
    return np.einsum("sihc,hcm->sim", o, P["wo"]) + P["bo"]


def init_params(c_m, c_z, h, c, seed=0):
    r = np.random.default_rng(seed)
    P = {n: r.normal(size=(c_m, h, c)) / np.sqrt(c_m) for n in ("wq", "wk", "wv", "wg")}
    P["bg"] = np.ones((h, c))
    P["wb"] = r.normal(size=(c_z, h)) / np.sqrt(c_z)
    P["wo"] = r.normal(size=(h, c, c_m)) / np.sqrt(h * c)
    P["bo"] = np.zeros(c_m)
    return P


if __name__ == "__main__":
    r = np.random.default_rng(0)
    u = msa_row_attention_with_pair_bias(r.normal(size=(5, 7, 8)), r.normal(size=(7, 7, 6)), init_params(8, 6, 2, 4))
    print(u.shape)
