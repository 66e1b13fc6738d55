"""Relative-position self-attention of a Conformer, ported to numpy.

Transformer-XL form (Dai et al. 2019), as in ESPnet's RelPositionMultiHeadedAttention:

    score_ij = ((q_i + u) . k_j + (q_i + v) . p_{i-j}) / sqrt(d)

p_r is the projected sinusoid of the distance r, for r = T-1 ... -(T-1).

``w`` holds linear_{q,k,v,out}.{weight,bias}, linear_pos.weight, pos_bias_u,
pos_bias_v ([heads, d]).  Weights are stored as in torch ([out, in]).
"""
import numpy as np


def relative_sinusoids(T, dim):
    """[2T-1, dim]; row n belongs to distance T-1-n; even columns sin, odd cos."""
    dist = np.arange(T - 1, -T, -1.0)[:, None]
    freq = np.exp(np.arange(0, dim, 2) * -(np.log(10000.0) / dim))
    table = np.zeros((2 * T - 1, dim))
    table[:, 0::2] = np.sin(dist * freq)
    table[:, 1::2] = np.cos(dist * freq)
    return table


def rel_shift(x):
    """[B, H, T, 2T-1] by distance -> [B, H, T, T] by key."""
    b, h, t, n = x.shape
    x = np.concatenate([np.zeros((b, h, t, 1), x.dtype), x], axis=-1)
    x = x.reshape(b, h, n + 1, t)[:, :, 1:]
    return x.reshape(b, h, t, n)[..., : n // 2 + 1]


def rel_attention(x, w, heads, lengths=None):
    """x [B, T, dim]; lengths [B] (>= 1): frames beyond are not seen."""
    B, T, dim = x.shape
    d = dim // heads

    def lin(name, y):
        y = y @ w[name + ".weight"].T + w.get(name + ".bias", 0.0)
        return y.reshape(*y.shape[:-1], heads, d)

    q = lin("linear_q", x)                                  # [B, T, H, d]
    k = lin("linear_k", x).transpose(0, 2, 3, 1)            # [B, H, d, T]
    v = lin("linear_v", x).transpose(0, 2, 1, 3)            # [B, H, T, d]
    p = lin("linear_pos", relative_sinusoids(T, dim)).transpose(1, 2, 0)

    content = (q + w["pos_bias_u"]).transpose(0, 2, 1, 3) @ k
    position = rel_shift((q + w["pos_bias_v"]).transpose(0, 2, 1, 3) @ p)
    score = (content + position) / np.sqrt(d)
    if lengths is not None:
        outside = np.arange(T)[None] >= np.asarray(lengths)[:, None]
        score = np.where(outside[:, None, None], -np.inf, score)
    score -= score.max(-1, keepdims=True)
    attn = np.exp(score)
    attn /= attn.sum(-1, keepdims=True)
    y = (attn @ v).transpose(0, 2, 1, 3).reshape(B, T, dim)
    return y @ w["linear_out.weight"].T + w["linear_out.bias"]


def random_weights(dim=16, heads=2, seed=0):
    r = np.random.default_rng(seed)
    w = {}
    for n in ("q", "k", "v", "out", "pos"):
        w[f"linear_{n}.weight"] = r.normal(size=(dim, dim)) / np.sqrt(dim)
        if n != "pos":
            w[f"linear_{n}.bias"] = 0.1 * r.normal(size=dim)
    w["pos_bias_u"], w["pos_bias_v"] = 0.3 * r.normal(size=(2, heads, dim // heads))
    return w
