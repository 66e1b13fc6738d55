"""Notes: Llama-3 attention in NumPy for one layer, step by step (blog, "weights to tokens", day 2).

n_q query heads, n_kv key/value heads; query heads 0..r-1 use kv head 0, r..2r-1 use kv head 1, ...
with r = n_q // n_kv.  Causal, scaled by sqrt(head_dim).  RoPE was done on day 1 and is left out.
"""
import numpy as np


def widen(t, r):
    """(B, L, n_kv, hd) -> (B, L, n_kv * r, hd), each kv head given to its r query heads"""
    B, L, n, hd = t.shape
    return np.repeat(t, r, axis=1).reshape(B, L, n * r, hd)


def rms(x, g, eps=1e-5):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * g


def attention_layer(x, W, n_q, n_kv):
    """
    x (B, L, D);  W: dict with wq (D, n_q*hd), wk and wv (D, n_kv*hd), wo (n_q*hd, D), g (D,)
    returns x + attention(rms(x)), (B, L, D)
    """
    B, L, _ = x.shape
    h = rms(x, W["g"])
    q = (h @ W["wq"]).reshape(B, L, n_q, -1)
    k = (h @ W["wk"]).reshape(B, L, n_kv, -1)
    v = (h @ W["wv"]).reshape(B, L, n_kv, -1)
    hd = q.shape[-1]
    k, v = widen(k, n_q // n_kv), widen(v, n_q // n_kv)

    s = np.einsum("bihd,bjhd->bhij", q, k) / np.sqrt(hd)
    later = np.triu(np.ones((L, L), dtype=bool), 1)
    s[:, :, later] = -np.inf
    s = s - s.max(axis=-1, keepdims=True)
    w = np.exp(s)
    w = w / w.sum(axis=-1, keepdims=True)
    o = np.einsum("bhij,bjhd->bihd", w, v).reshape(B, L, n_q * hd)
    return x + o @ W["wo"]
