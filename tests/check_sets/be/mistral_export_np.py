"""Run the exported Mistral-like blocks on the edge box: NumPy, no torch.

The export keeps Hugging Face conventions: query head h uses key/value head
h // (n_heads // n_kv_heads).  All activations are (seq, features); the mask is
causal with a sliding window (a token sees itself and the window - 1 before it).
"""
import json

import numpy as np


def load_config(text):
    cfg = json.loads(text)
    cfg.setdefault("n_kv_heads", cfg["n_heads"])
    cfg.setdefault("window", 4096)
    return cfg


def silu(x):
    return x / (1.0 + np.exp(-x))


def rmsnorm(x, w, eps=1e-6):
    return x / np.sqrt(np.mean(x ** 2, axis=-1, keepdims=True) + eps) * w


def sliding_mask(n, window):
    i = np.arange(n)[:, None]
    j = np.arange(n)[None, :]
    return (j <= i) & (i - j < window)


def expand_kv(x, n_rep):
    """(n_kv, seq, hd) -> (n_kv * n_rep, seq, hd)"""
    if n_rep == 1:
        return x
    return np.tile(x, (n_rep, 1, 1))


def grouped_attention(q, k, v, window):
    """q (n_heads, seq, hd), k/v (n_kv, seq, hd) -> (seq, n_heads * hd)"""
    n_rep = q.shape[0] // k.shape[0]
    k, v = expand_kv(k, n_rep), expand_kv(v, n_rep)
    s = q @ k.transpose(0, 2, 1) / np.sqrt(q.shape[-1])
    s = np.where(sliding_mask(q.shape[1], window), s, -np.inf)
    s = s - s.max(axis=-1, keepdims=True)
    p = np.exp(s)
    p /= p.sum(axis=-1, keepdims=True)
    o = p @ v
    return o.transpose(1, 0, 2).reshape(q.shape[1], -1)


class EdgeBlock:
    def __init__(self, cfg, w):
        self.cfg, self.w = cfg, w

    def heads(self, t, n):
        return t.reshape(t.shape[0], n, -1).transpose(1, 0, 2)

    def forward(self, x):
        c, w = self.cfg, self.w
        h = rmsnorm(x, w["attn_norm"])
        q = self.heads(h @ w["q"], c["n_heads"])
        k = self.heads(h @ w["k"], c["n_kv_heads"])
        v = self.heads(h @ w["v"], c["n_kv_heads"])
        x = x + grouped_attention(q, k, v, c["window"]) @ w["o"]
        h = rmsnorm(x, w["ffn_norm"])
        return x + (silu(h @ w["gate"]) * (h @ w["up"])) @ w["down"]
