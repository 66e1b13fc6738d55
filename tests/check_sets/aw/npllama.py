"""npllama -- the smallest thing that runs a llama checkpoint on a laptop without torch.

weights: dict of float32 arrays under the names of the original release
         (wq, wk, wv, wo, each stored [out, in]; rotation on neighbouring pairs).
"""
import numpy as np


class Hp:
    dim = 32
    n_heads = 4
    n_kv_heads = 2
    theta = 10000.0
    eps = 1e-5


def rms(x, g, eps):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * g


def spin(x, pos, theta):
    """x [T, heads, hd]; pair (2i, 2i+1) turns by pos * theta^(-2i/hd)."""
    hd = x.shape[-1]
    inv = theta ** (-np.arange(0, hd, 2) / hd)
    ang = pos[:, None] * inv
    c, s = np.cos(ang)[:, None], np.sin(ang)[:, None]
    a, b = x[..., 0::2], x[..., 1::2]
    y = np.empty_like(x)
    y[..., 0::2] = a * c - b * s
    y[..., 1::2] = a * s + b * c
    return y


def attention(w, pre, x, cache, hp):
    """x [T, dim] new tokens, cache a dict that keeps k and v between calls."""
    T = x.shape[0]
    hd = hp.dim // hp.n_heads
    group = hp.n_heads // hp.n_kv_heads
    q = (x @ w[pre + "wq"].T).reshape(T, hp.n_heads, hd)
    k = (x @ w[pre + "wk"].T).reshape(T, hp.n_kv_heads, hd)
    v = (x @ w[pre + "wv"].T).reshape(T, hp.n_kv_heads, hd)
    past = cache["k"].shape[0] if "k" in cache else 0
    pos = np.arange(past, past + T)
    q, k = spin(q, pos, hp.theta), spin(k, pos, hp.theta)
    if past:
        k = np.concatenate([cache["k"], k])
        v = np.concatenate([cache["v"], v])
    cache["k"], cache["v"] = k, v
    out = np.empty_like(q)
    unseen = np.arange(k.shape[0])[None] > pos[:, None]
    for h in range(hp.n_heads):
        kh, vh = k[:, h // group], v[:, h // group]
        att = q[:, h] @ kh.T / np.sqrt(hd)
        att[unseen] = -np.inf
        att -= att.max(-1, keepdims=True)
        att = np.exp(att)
        att /= att.sum(-1, keepdims=True)
        out[:, h] = att @ vh
    return out.reshape(T, hp.dim) @ w[pre + "wo"].T


def silu(x):
    return x / (1.0 + np.exp(-x))


def layer(w, i, x, cache, hp):
    p = f"layers.{i}."
    x = x + attention(w, p + "attention.", rms(x, w[p + "attention_norm"], hp.eps), cache, hp)
    z = rms(x, w[p + "ffn_norm"], hp.eps)
    return x + (silu(z @ w[p + "w1"].T) * (z @ w[p + "w3"].T)) @ w[p + "w2"].T
