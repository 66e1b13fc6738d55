# coding: utf-8
"""Exercise sheet 7: a GPT layer in NumPy, forward pass only.

decoder_layer(x, p, n_head)
    x : (B, T, C) float array
    p : dict with w_q, w_k, w_v, w_o of shape (C, C), w_1 (C, F), w_2 (F, C),
        g_1, g_2 (C,) the gains of the layer norms (no bias)
    returns (B, T, C)

    x = x + MHA(LN(x));  x = x + FF(LN(x))

MHA is causal: token t reads tokens 0..t. Each head has size C / n_head, its
scores are divided by the square root of the head size, and the outputs of the
heads of one token are put side by side before w_o is applied.
"""
import numpy as np


def ln(x, g, eps=1e-5):
    mu = x.mean(-1, keepdims=True)
    return g * (x - mu) / np.sqrt(x.var(-1, keepdims=True) + eps)


def softmax(z):
    z = z - z.max(axis=-1, keepdims=True)
    e = np.exp(z)
    return e / e.sum(axis=-1, keepdims=True)


def heads(x, n_head):
    B, T, C = x.shape
    return x.reshape(B, T, n_head, C // n_head).transpose(0, 2, 1, 3)


def mha(x, p, n_head):
    B, T, C = x.shape
    q, k, v = (heads(x @ p[w], n_head) for w in ("w_q", "w_k", "w_v"))
    s = q @ k.swapaxes(-1, -2) / np.sqrt(C)
    see = np.tril(np.ones((T, T), dtype=bool), k=1)
    s = np.where(see, s, -np.inf)
    y = softmax(s) @ v  # (B, n_head, T, C/n_head)
    y = y.reshape(B, T, C)
    return y @ p["w_o"]


def decoder_layer(x, p, n_head):
    x = x + mha(ln(x, p["g_1"]), p, n_head)
    h = np.maximum(ln(x, p["g_2"]) @ p["w_1"], 0.0)
    return x + h @ p["w_2"]
