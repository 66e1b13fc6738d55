"""DeepSeek-V2 multi-head latent attention at decode time, with the matrices absorbed.

The cache holds per token only c_kv (rank r) and the shared rotated key k_R (d_r).
Because k_C = c_kv @ W_UK and v = c_kv @ W_UV, the score q_C . k_C equals
(q_C @ W_UK^T) . c_kv, so keys and values are never expanded.  Pure NumPy.
"""
import numpy as np


def rope(x, pos, base=10000.0):
    """Rotate pairs (2i, 2i+1) of the last axis; pos broadcasts against x.shape[:-1]."""
    d = x.shape[-1]
    ang = np.asarray(pos)[..., None] * base ** (-np.arange(0, d, 2) / d)
    c, s = np.cos(ang), np.sin(ang)
    even, odd = x[..., 0::2], x[..., 1::2]
    out = np.empty_like(x)
    out[..., 0::2] = even * c - odd * s
    out[..., 1::2] = even * s + odd * c
    return out


def mla_decode(h, cache_c, cache_r, P, n_heads):
    """
    h        (D,) hidden state of the new token, whose position is len(cache_c)
    cache_c  (t, r)   latents of the t earlier tokens
    cache_r  (t, d_r) their rotated shared keys
    P        dict: W_Q (D, n_heads * (d_c + d_r)), per head first the d_c content part and then
             the d_r part that is rotated; W_DKV (D, r); W_KR (D, d_r); W_UK (n_heads, r, d_c);
             W_UV (n_heads, r, d_v); W_O (n_heads * d_v, D)
    returns  output (D,), new cache_c (t+1, r), new cache_r (t+1, d_r)
    The new token attends to the cache and to itself; scale 1 / sqrt(d_c + d_r).
    """
    t = cache_c.shape[0]
    d_c = P["W_UK"].shape[2]
    d_r = cache_r.shape[1]
    cache_c = np.concatenate([cache_c, (h @ P["W_DKV"])[None]])
    cache_r = np.concatenate([cache_r, rope(h @ P["W_KR"], t)[None]])
    q = (h @ P["W_Q"]).reshape(n_heads, d_c + d_r)
    q_c, q_r = q[:, :d_c], rope(q[:, d_c:], t)
    q_lat = np.einsum("hd,hrd->hr", q_c, P["W_UK"])
    s = (q_lat @ cache_c.T + q_r @ cache_r.T) / np.sqrt(d_c + d_r)
    s -= s.max(axis=-1, keepdims=True)
    a = np.exp(s)
    a /= a.sum(axis=-1, keepdims=True)
    o_lat = a @ cache_c
    o = np.einsum("hr,hrv->hv", o_lat, P["W_UV"])
    return o.reshape(-1) @ P["W_O"], cache_c, cache_r
