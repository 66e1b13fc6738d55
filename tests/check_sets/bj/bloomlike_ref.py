"""
NumPy reference of the decoder layer exported by our converter.

Graph attributes are plain dicts, tensors are float32 arrays.  Position
information enters only through ALiBi (Press et al. 2022): head h gets the
penalty  -slope_h * (i - j).  For a head count that is no power of two the
slopes are those of the published recipe (closest lower power of two, then the
odd members of the next geometric series).
"""
import math

import numpy as np


def get_slopes(n_heads):
    """Slopes of all heads, as a float64 vector of length n_heads."""
    ratio = 2.0 ** (-8.0 / n_heads)
    return np.array([ratio ** (h + 1) for h in range(n_heads)])


def alibi_bias(n_heads, q_len, k_len):
    q_pos = np.arange(k_len - q_len, k_len)[:, None]
    k_pos = np.arange(k_len)[None, :]
    dist = q_pos - k_pos
    bias = -get_slopes(n_heads)[:, None, None] * dist
    return np.where(dist >= 0, bias, -np.inf)


def layer_norm(x, gamma, beta, eps=1e-5):
    mu = x.mean(-1, keepdims=True)
    var = ((x - mu) ** 2).mean(-1, keepdims=True)
    return (x - mu) / np.sqrt(var + eps) * gamma + beta


def gelu(x):
    return 0.5 * x * (1.0 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def _heads(x, n):
    b, t, c = x.shape
    return x.reshape(b, t, n, c // n).transpose(0, 2, 1, 3)


def run_attention(x, weights, attrs, past=None):
    """x [B,T,C]; past None or (k, v) each [B,H,P,d].  Returns (y, present)."""
    n = attrs["num_heads"]
    q = _heads(x @ weights["wq"] + weights["bq"], n)
    k = _heads(x @ weights["wk"] + weights["bk"], n)
    v = _heads(x @ weights["wv"] + weights["bv"], n)
    if past is not None:
        k = np.concatenate([past[0], k], axis=2)
        v = np.concatenate([past[1], v], axis=2)
    s = q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1])
    s = s + alibi_bias(n, q.shape[2], k.shape[2])
    s = s - s.max(axis=-1, keepdims=True)
    p = np.exp(s)
    p /= p.sum(axis=-1, keepdims=True)
    y = (p @ v).transpose(0, 2, 1, 3).reshape(x.shape)
    return y @ weights["wo"] + weights["bo"], (k, v)


def run_layer(x, weights, attrs, past=None):
    h = layer_norm(x, weights["ln1_g"], weights["ln1_b"])
    a, present = run_attention(h, weights, attrs, past)
    x = x + a
    h = layer_norm(x, weights["ln2_g"], weights["ln2_b"])
    return x + gelu(h @ weights["w1"]) @ weights["w2"], present


def random_weights(c, seed=0):
    r = np.random.default_rng(seed)
    w = {n: r.normal(size=(c, c)) / math.sqrt(c) for n in ("wq", "wk", "wv", "wo")}
    w.update({n: r.normal(size=c) * 0.1 for n in ("bq", "bk", "bv", "bo")})
    w.update(ln1_g=np.ones(c), ln1_b=np.zeros(c), ln2_g=np.ones(c), ln2_b=np.zeros(c))
    w["w1"] = r.normal(size=(c, 4 * c)) / math.sqrt(c)
    w["w2"] = r.normal(size=(4 * c, c)) / math.sqrt(4 * c)
    return w


if __name__ == "__main__":
    ws = random_weights(24)
    out, _ = run_layer(np.random.default_rng(1).normal(size=(1, 6, 24)), ws, {"num_heads": 6})
    print(out.shape)
