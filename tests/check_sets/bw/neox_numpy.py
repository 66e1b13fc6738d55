"""GPT-NeoX / Pythia layer in plain NumPy, weights straight from the checkpoint.

`attention.query_key_value` of NeoX is packed head by head: the 3*hidden rows are
[head 0: q, k, v], [head 1: q, k, v], ... Rotary on the first rotary_pct of the head
(half-split pairs), and the parallel residual x + attn(ln1(x)) + mlp(ln2(x)).
"""
import numpy as np
from math import erf

_erf = np.vectorize(erf, otypes=[float])


def gelu(x):
    return x * 0.5 * (1.0 + _erf(x / np.sqrt(2.0)))


def layernorm(x, g, b, eps=1e-5):
    m = x.mean(-1, keepdims=True)
    v = ((x - m) ** 2).mean(-1, keepdims=True)
    return (x - m) / np.sqrt(v + eps) * g + b


def rotary(t, rot, base=10000):
    # t: (heads, n, d); only the first `rot` dims are rotated
    n = t.shape[1]
    inv = 1.0 / base ** (np.arange(0, rot, 2) / rot)
    ang = np.outer(np.arange(n), inv)
    cos = np.concatenate([np.cos(ang)] * 2, -1)
    sin = np.concatenate([np.sin(ang)] * 2, -1)
    r, rest = t[..., :rot], t[..., rot:]
    a, b = r[..., :rot // 2], r[..., rot // 2:]
    r = r * cos + np.concatenate([-b, a], -1) * sin
    return np.concatenate([r, rest], -1)


def attention(x, w, n_heads, rotary_pct):
    n, hidden = x.shape
    d = hidden // n_heads
    qkv = x @ w["attention.query_key_value.weight"].T + w["attention.query_key_value.bias"]
    qkv = qkv.reshape(n, 3, n_heads, d).transpose(1, 2, 0, 3)
    q, k, v = qkv[0], qkv[1], qkv[2]

    rot = int(d * rotary_pct)
    q, k = rotary(q, rot), rotary(k, rot)
    s = q @ k.swapaxes(-1, -2) / np.sqrt(d)
    s = np.where(np.tri(n, dtype=bool), s, -np.inf)
    s -= s.max(-1, keepdims=True)
    p = np.exp(s)
    p /= p.sum(-1, keepdims=True)
    y = (p @ v).transpose(1, 0, 2).reshape(n, hidden)
    return y @ w["attention.dense.weight"].T + w["attention.dense.bias"]


def neox_layer(x, w, n_heads=4, rotary_pct=0.25):
    """x: (n, hidden) for one sequence; w: dict with the names of the checkpoint."""
    h1 = layernorm(x, w["input_layernorm.weight"], w["input_layernorm.bias"])
    h2 = layernorm(x, w["post_attention_layernorm.weight"], w["post_attention_layernorm.bias"])
    m = gelu(h2 @ w["mlp.dense_h_to_4h.weight"].T + w["mlp.dense_h_to_4h.bias"])
    m = m @ w["mlp.dense_4h_to_h.weight"].T + w["mlp.dense_4h_to_h.bias"]
    return x + attention(h1, w, n_heads, rotary_pct) + m


def fake_checkpoint(hidden=32, seed=0):
    r = np.random.default_rng(seed)
    w = {}
    for name, i, o in (("attention.query_key_value", hidden, 3 * hidden),
                       ("attention.dense", hidden, hidden),
                       ("mlp.dense_h_to_4h", hidden, 4 * hidden),
                       ("mlp.dense_4h_to_h", 4 * hidden, hidden)):
        w[name + ".weight"] = r.normal(size=(o, i)) / np.sqrt(i)
        w[name + ".bias"] = r.normal(size=o) * 0.02
    for name in ("input_layernorm", "post_attention_layernorm"):
        w[name + ".weight"], w[name + ".bias"] = np.ones(hidden), np.zeros(hidden)
    return w


if __name__ == "__main__":
    x = np.random.default_rng(1).normal(size=(7, 32))
    print(neox_layer(x, fake_checkpoint()).shape)
