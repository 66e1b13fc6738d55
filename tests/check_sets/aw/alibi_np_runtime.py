"""Inference of the released MPT/BLOOM-like Swahili model from an .npz archive (NumPy only).

Linear biases are those of the ALiBi paper: for head counts that are no power of two the slopes
of the next smaller power are taken first and every other slope of the doubled one fills up.
"""
import numpy as np


def load(path):
    with np.load(path) as z:
        return {k: z[k].astype(np.float32) for k in z.files}


def slopes(n):
    base = 2.0 ** (-8.0 / n)
    return np.array([base ** (i + 1) for i in range(n)], np.float32)




def layernorm(x, g, b):
    x = x - x.mean(-1, keepdims=True)
    return x / np.sqrt((x ** 2).mean(-1, keepdims=True) + 1e-5) * g + b


def angalia(w, i, x, n_heads):
    """attention of layer i over x [L, D]"""
    L, D = x.shape
    hd = D // n_heads
    q, k, v = np.split(x @ w[f"blk{i}.wqkv"], 3, axis=1)
    q, k, v = (t.reshape(L, n_heads, hd).swapaxes(0, 1) for t in (q, k, v))
    s = q @ k.swapaxes(1, 2) / np.sqrt(hd)
    mbali = np.arange(L)[:, None] - np.arange(L)[None, :]
    s = s - slopes(n_heads)[:, None, None] * mbali
    s = np.where(mbali < 0, -np.inf, s)
    s = np.exp(s - s.max(-1, keepdims=True))
    s = s / s.sum(-1, keepdims=True)
    y = (s @ v).swapaxes(0, 1).reshape(L, D)
    return y @ w[f"blk{i}.wo"]


def mlp(w, i, x):
    h = x @ w[f"blk{i}.up"]
    h = 0.5 * h * (1 + np.tanh(0.79788456 * (h + 0.044715 * h ** 3)))
    return h @ w[f"blk{i}.down"]


def forward(w, ids, n_layers, n_heads):
    x = w["wte"][ids]
    for i in range(n_layers):
        x = x + angalia(w, i, layernorm(x, w[f"blk{i}.g1"], w[f"blk{i}.b1"]), n_heads)
        x = x + mlp(w, i, layernorm(x, w[f"blk{i}.g2"], w[f"blk{i}.b2"]))
    return layernorm(x, w["gf"], w["bf"]) @ w["wte"].T
