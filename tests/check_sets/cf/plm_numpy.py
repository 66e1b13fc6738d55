"""A layer of a protein language model (ESM-2 naming) in plain numpy.

Weights come as the dict of the released state dict, for example
``layers.0.self_attn.q_proj.weight``.  As in the original: pre-norm, the query is
scaled by head_dim ** -0.5 before the rotation, rotary positions with half
splitting on q and k, and bidirectional attention in which padding residues
(token id 1) are invisible as keys.
"""
import numpy as np
from math import erf

PAD = 1
_erf = np.vectorize(erf)


def layer_norm(x, w, prefix, eps=1e-5):
    mu = x.mean(-1, keepdims=True)
    var = x.var(-1, keepdims=True)
    return (x - mu) / np.sqrt(var + eps) * w[prefix + ".weight"] + w[prefix + ".bias"]


def dense(x, w, prefix):
    return x @ w[prefix + ".weight"].T + w[prefix + ".bias"]


def rotary(x):
    # x: batch, heads, residues, head_dim
    n, d = x.shape[-2:]
    inv_freq = 1.0 / (10000 ** (np.arange(0, d, 2) / d))
    ang = np.outer(np.arange(n), inv_freq)
    ang = np.concatenate([ang, ang], axis=-1)
    x1, x2 = np.split(x, 2, axis=-1)
    turned = np.concatenate([-x2, x1], axis=-1)
    return x * np.cos(ang) + turned * np.sin(ang)


def self_attention(x, tokens, w, prefix, n_heads):
    b, n, c = x.shape
    hd = c // n_heads

    def heads(t):
        return t.reshape(b, n, n_heads, hd).transpose(0, 2, 1, 3)

    q = heads(dense(x, w, prefix + ".q_proj") * hd ** -0.5)
    k = heads(dense(x, w, prefix + ".k_proj"))
    v = heads(dense(x, w, prefix + ".v_proj"))
    s = rotary(q) @ rotary(k).swapaxes(-1, -2)
    s = np.where((tokens == PAD)[:, None, None, :], -np.inf, s)
    s = np.exp(s - s.max(-1, keepdims=True))
    a = s / s.sum(-1, keepdims=True)
    o = (a @ v).transpose(0, 2, 1, 3).reshape(b, n, c)
    return dense(o, w, prefix + ".out_proj"), a


def encoder_layer(x, tokens, w, index=0, n_heads=4):
    """x (B, N, C) float, tokens (B, N) int -> (B, N, C), attention (B, H, N, N)."""
    p = "layers.%d" % index
    y, attn = self_attention(layer_norm(x, w, p + ".self_attn_layer_norm"),
                             tokens, w, p + ".self_attn", n_heads)
    x = x + y
    h = dense(layer_norm(x, w, p + ".final_layer_norm"), w, p + ".fc1")
    h = h * 0.5 * (1.0 + _erf(h / np.sqrt(2.0)))
    return x + dense(h, w, p + ".fc2"), attn


def random_layer(dim=32, ffn=64, index=0, seed=0):
    rng = np.random.default_rng(seed)
    w = {}
    p = "layers.%d." % index
    for name, o, i in [("self_attn.q_proj", dim, dim), ("self_attn.k_proj", dim, dim),
                       ("self_attn.v_proj", dim, dim), ("self_attn.out_proj", dim, dim),
                       ("fc1", ffn, dim), ("fc2", dim, ffn)]:
        w[p + name + ".weight"] = rng.standard_normal((o, i)) / np.sqrt(i)
        w[p + name + ".bias"] = rng.standard_normal(o) * 0.1
    for name in ("self_attn_layer_norm", "final_layer_norm"):
        w[p + name + ".weight"] = np.ones(dim)
        w[p + name + ".bias"] = np.zeros(dim)
    return w
