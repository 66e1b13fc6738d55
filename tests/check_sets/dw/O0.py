"""golfed causal self-attention, numpy only (for the 1 kB contest).

f(X, A, O, n): X is (l, c) float, A is (c, 3c) [q|k|v, each head-major], O is (c, c), n heads.
Gives (l, c): multi-head causal attention, logits / sqrt(c/n), then @ O.
g(X, A, O, n, m): the same on a batch X (b, l, c) where m (b,) are the true lengths (>= 1); rows past
the length are zero.
"""
import numpy as np

S = lambda z: (e := np.exp(z - z.max(-1, keepdims=True))) / e.sum(-1, keepdims=True)


def f(X, A, O, n):
    l, c = X.shape
    u = c // n
    O0, OO, l1 = (X @ A).reshape(l, 3, n, u).transpose(1, 2, 0, 3)
    ll = np.einsum("nid,njd->nij", O0, OO) / u**.5
    ll[:, ~np.tri(l, dtype=bool)] = -np.inf
    return np.swapaxes(S(ll) @ l1, 0, 1).reshape(l, c) @ O


def g(X, A, O, n, m):
    R = np.zeros(X.shape[:2] + O.shape[1:])
    for i, (x, k) in enumerate(zip(X, m)):
        R[i, :k] = f(x[:k], A, O, n)
    return R
