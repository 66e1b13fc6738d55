import numpy as np


def relative_attention(x, p, n_heads):
    """Self-attention with a learned bias per head and relative distance, for hourly load curves.

    x : (days, hours, dim)
    p : dict of arrays
        wq, wk, wv, wo : (dim, dim), used as x @ w, heads = consecutive blocks of columns
        table          : (n_heads, 2 * hours - 1); table[h, i - j + hours - 1] is added to the
                         scaled logit with which hour i reads hour j (so the first entries belong
                         to j after i, the last ones to j before i)
    Scale 1/sqrt(dim // n_heads), softmax over the hours read. Returns (days, hours, dim).
    """
    B, L, D = x.shape
    d = D // n_heads

    def split(w):
        return (x @ w).reshape(B, L, n_heads, d)

    q, k, v = split(p["wq"]), split(p["wk"]), split(p["wv"])
    logits = np.einsum("bihd,bjhd->bhij", q, k) / np.sqrt(d)

    hour = np.arange(L)
    index = hour[None, :] - hour[:, None] + L - 1          # (L, L)
    logits = logits + p["table"][:, index]                 # (n_heads, L, L)

    logits = logits - logits.max(axis=-1, keepdims=True)
    w = np.exp(logits)
    w = w / w.sum(axis=-1, keepdims=True)
    y = np.einsum("bhij,bjhd->bihd", w, v).reshape(B, L, D)
    return y @ p["wo"]


def random_params(rng, dim=16, n_heads=4, hours=24):
    """normal weights, for tests"""
    p = {k: rng.normal(size=(dim, dim)) / np.sqrt(dim) for k in ("wq", "wk", "wv", "wo")}
    p["table"] = rng.normal(size=(n_heads, 2 * hours - 1))
    return p
