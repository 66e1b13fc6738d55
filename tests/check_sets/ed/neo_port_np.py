"""NumPy port of one decoder block, to read our old checkpoint without the framework.

block(x, W, heads):  x (T, D) -> (T, D)

The checkpoint packs the projection head by head: W["qkv_w"] is (D, 3*D) and its columns
are, for head 0: d columns of q, d of k, d of v; then the same for head 1; and so on
(i.e. the 3*D columns read as (heads, 3, d), d = D // heads).  W["qkv_b"] (3*D,) likewise.

Parallel residual as in the original:  x + attention(ln1(x)) + mlp(ln2(x)).
Causal: row t reads rows 0..t.  Logits over sqrt(d).
"""
import numpy as np


def norm(x, g, b):
    m = x.mean(-1, keepdims=True)
    return (x - m) / np.sqrt(x.var(-1, keepdims=True) + 1e-5) * g + b


def attention(x, W, heads):
    T, D = x.shape
    qkv = x @ W["qkv_w"] + W["qkv_b"]
    q, k, v = qkv.reshape(T, 3, heads, D // heads).transpose(1, 2, 0, 3)
    s = q @ k.transpose(0, 2, 1) / np.sqrt(D // heads)
    s[:, np.triu(np.ones((T, T), bool), 1)] = -np.inf
    s -= s.max(-1, keepdims=True)
    p = np.exp(s)
    p /= p.sum(-1, keepdims=True)
    y = (p @ v).transpose(1, 0, 2).reshape(T, D)
    return y @ W["dense_w"] + W["dense_b"]


def mlp(x, W):
    h = x @ W["up_w"] + W["up_b"]
    h = 0.5 * h * (1 + np.tanh(0.7978845608 * (h + 0.044715 * h ** 3)))
    return h @ W["down_w"] + W["down_b"]


def block(x, W, heads):
    a = attention(norm(x, W["ln1_g"], W["ln1_b"]), W, heads)
    m = mlp(norm(x, W["ln2_g"], W["ln2_b"]), W)
    return x + a + m


def random_weights(D, seed=0):
    r = np.random.default_rng(seed)
    n = lambda *s: r.normal(size=s) / np.sqrt(s[0])
    return {
        "qkv_w": n(D, 3 * D), "qkv_b": n(3 * D), "dense_w": n(D, D), "dense_b": n(D),
        "up_w": n(D, 4 * D), "up_b": n(4 * D), "down_w": n(4 * D, D), "down_b": n(D),
        "ln1_g": np.ones(D), "ln1_b": np.zeros(D), "ln2_g": np.ones(D), "ln2_b": np.zeros(D),
    }
