"""Mistral attention in numpy, reading a Hugging Face style dict of weights.

Weights are stored as in torch ([out, in]): q_proj, k_proj, v_proj, o_proj.
Rotary embedding in the Hugging Face layout: entry i and entry i + d/2 of a head
form a pair and turn with theta^(-2i/d).  Sliding window: a token sees the last
`sliding_window` tokens, counting itself.
"""
import numpy as np

DEFAULTS = dict(num_heads=4, num_kv_heads=2, head_dim=8, sliding_window=3, rope_theta=1e4)


def rotate_half(x):
    half = x.shape[-1] // 2
    return np.concatenate([-x[..., half:], x[..., :half]], axis=-1)


def rotary_tables(n, d, theta):
    inv_freq = 1.0 / theta ** (np.arange(0, d, 2) / d)
    angles = np.outer(np.arange(n), inv_freq)
    angles = np.repeat(angles, 2, axis=-1)
    return np.cos(angles), np.sin(angles)


def window_mask(n, window):
    q = np.arange(n)[:, None]
    k = np.arange(n)[None, :]
    return (k <= q) & (q - k <= window)


def stable_softmax(s):
    e = np.exp(s - s.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def mistral_attention(x, weights, **overrides):
    """x: [batch, n, hidden] -> [batch, n, hidden]"""
    cfg = {**DEFAULTS, **overrides}
    h, hk, d = cfg["num_heads"], cfg["num_kv_heads"], cfg["head_dim"]
    b, n, _ = x.shape

    q = (x @ weights["q_proj"].T).reshape(b, n, h, d).transpose(0, 2, 1, 3)
    k = (x @ weights["k_proj"].T).reshape(b, n, hk, d).transpose(0, 2, 1, 3)
    v = (x @ weights["v_proj"].T).reshape(b, n, hk, d).transpose(0, 2, 1, 3)

    cos, sin = rotary_tables(n, d, cfg["rope_theta"])
    q = q * cos + rotate_half(q) * sin
    k = k * cos + rotate_half(k) * sin

    k = np.repeat(k, h // hk, axis=1)
    v = np.repeat(v, h // hk, axis=1)
    scores = np.einsum("bhqd,bhkd->bhqk", q, k) / np.sqrt(d)
    scores = np.where(window_mask(n, cfg["sliding_window"]), scores, -np.inf)
    out = stable_softmax(scores) @ v
    return out.transpose(0, 2, 1, 3).reshape(b, n, h * d) @ weights["o_proj"].T


def random_weights(hidden=32, seed=0, num_heads=4, num_kv_heads=2, head_dim=8):
    rng = np.random.default_rng(seed)

    def w(o, i):
        return rng.standard_normal((o, i)) / np.sqrt(i)

    return {
        "q_proj": w(num_heads * head_dim, hidden),
        "k_proj": w(num_kv_heads * head_dim, hidden),
        "v_proj": w(num_kv_heads * head_dim, hidden),
        "o_proj": w(hidden, num_heads * head_dim),
    }
