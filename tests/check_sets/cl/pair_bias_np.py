# numpy port of the "attention with pair bias" block, for checking the C++ kernel.
# Shapes follow the kernel: heads first, no batch.
import numpy as np


def layer_norm(x, eps=1e-5):
    mu = x.mean(-1, keepdims=True)
    return (x - mu) / np.sqrt(x.var(-1, keepdims=True) + eps)


def sigmoid(x):
    return 1.0 / (1.0 + np.exp(-x))


def init_params(c_s=16, c_z=6, n_head=4, seed=0):
    rng = np.random.default_rng(seed)
    g = lambda *s: rng.standard_normal(s) / np.sqrt(s[0])
    return dict(wq=g(c_s, c_s), wk=g(c_s, c_s), wv=g(c_s, c_s), wg=g(c_s, c_s),
                wo=g(c_s, c_s), wz=g(c_z, n_head), n_head=n_head)


def attention_pair_bias(s, z, residue_mask, p=None):
    """Gated self-attention over residues, biased by the pair representation.

    s             (N, c_s)      single representation
    z             (N, N, c_z)   pair representation, z[i, j] biases query i to key j
    residue_mask  (N,)          1 for resolved residues, 0 for gaps; gaps aren't
                                attended to. At least one residue is resolved.
    Returns the update of s, (N, c_s).
    """
    if p is None:
        p = init_params(s.shape[-1], z.shape[-1])
    H = p["n_head"]
    N, C = s.shape
    d = C // H
    x = layer_norm(s)
    q = (x @ p["wq"]).reshape(N, H, d).transpose(1, 0, 2)
    k = (x @ p["wk"]).reshape(N, H, d).transpose(1, 0, 2)
    v = (x @ p["wv"]).reshape(N, H, d).transpose(1, 0, 2)

    bias = (layer_norm(z) @ p["wz"]).transpose(2, 0, 1)          # H N N
    a = np.matmul(q, k.transpose(0, 2, 1)) * d ** -0.5 + bias
    a = np.where(residue_mask[None, None, :] > 0, a, -np.inf)
    a = a - a.max(axis=-1, keepdims=True)
    a = np.exp(a)
    a /= a.sum(axis=-1, keepdims=True)

    o = np.matmul(a, v).transpose(1, 0, 2).reshape(N, C)
    return (sigmoid(x @ p["wg"]) * o) @ p["wo"]
