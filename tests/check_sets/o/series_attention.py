import numpy as np


def temporal_attention(x, Wq, Wk, Wv, heads=2):
    """Every series of a panel attends over its own time steps.  x (series, time, features), any scale."""
    n, t, f = x.shape

    def cut(w):
        return (x @ w).reshape(n, t, heads, f // heads)

    a = np.einsum("nqhc,nkhc->nhqk", cut(Wq), cut(Wk)) * (f // heads) ** -0.5
    a = np.exp(a - np.max(a))
    a = a / np.sum(a, axis=-1, keepdims=True)
    return np.einsum("nhqk,nkhc->nqhc", a, cut(Wv)).reshape(n, t, f)
