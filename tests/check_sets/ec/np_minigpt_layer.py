"""Une couche d'auto-attention de mini-GPT en NumPy (inférence seulement).

Poids au format GPT-2 : c_attn_w (D, 3D) rend [q | k | v], chacun découpé en H têtes de
d = D // H canaux consécutifs (tête 0 = canaux 0..d-1, etc.).  Scores divisés par
sqrt(d).  Causalité : la position i ne lit que les positions 0..i.

x (B, T, D) -> (B, T, D)
"""
import numpy as np


def softmax(a):
    a = a - a.max(axis=-1, keepdims=True)
    e = np.exp(a)
    return e / e.sum(axis=-1, keepdims=True)


def layer_norm(x, g, b, eps=1e-5):
    mu = x.mean(-1, keepdims=True)
    var = x.var(-1, keepdims=True)
    return (x - mu) / np.sqrt(var + eps) * g + b


def attention(x, p, H):
    """p : dict avec c_attn_w (D, 3D), c_attn_b (3D,), c_proj_w (D, D), c_proj_b (D,)"""
    B, T, D = x.shape
    d = D // H
    q, k, v = np.split(x @ p["c_attn_w"] + p["c_attn_b"], 3, axis=-1)

    # une tête = un bloc de d canaux
    q = q.reshape(B, H, T, d)
    k = k.reshape(B, H, T, d)
    v = v.reshape(B, H, T, d)

    scores = q @ k.transpose(0, 1, 3, 2)
    futur = np.triu(np.ones((T, T), dtype=bool), k=2)
    scores = np.where(futur, -np.inf, scores)
    y = softmax(scores) @ v

    y = y.transpose(0, 2, 1, 3).reshape(B, T, D)
    return y @ p["c_proj_w"] + p["c_proj_b"]


def block_attn(x, p, H):
    """x + attention(ln_1(x)), la première moitié d'un bloc GPT-2."""
    return x + attention(layer_norm(x, p["ln_g"], p["ln_b"]), p, H)
