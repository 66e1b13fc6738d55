"""CS-NLP homework 4, part B: the decomposable attention model (Parikh et al. 2016), forward only.

Shapes: a (B, La, d) premise, b (B, Lb, d) hypothesis; la, lb (B,) true lengths, >= 1.
"""
import numpy as np


def relu(x):
    return np.maximum(x, 0.0)


def mlp(x, W1, b1, W2, b2):
    return relu(relu(x @ W1 + b1) @ W2 + b2)


def soft(e, ok, axis):
    """softmax of e along `axis`, over the places where ok is True"""
    e = np.where(ok, e, -np.inf)
    e = np.exp(e - e.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def align(a, b, Fa, Fb, la, lb):
    """Return (beta, alpha):

    beta  (B, La, d): for each premise word, the subphrase of b softly aligned to it
    alpha (B, Lb, d): for each hypothesis word, the subphrase of a softly aligned to it
    """
    B, La, _ = a.shape
    Lb = b.shape[1]
    e = np.einsum("bid,bjd->bij", Fa, Fb)
    ok_a = (np.arange(La)[None] < la[:, None])[:, :, None]
    ok_b = (np.arange(Lb)[None] < lb[:, None])[:, None, :]
    beta = soft(e, ok_b, axis=2) @ b
    alpha = np.swapaxes(soft(e, ok_a, axis=1), 1, 2) @ a
    return beta, alpha


class DecomposableAttention:
    def __init__(self, d=12, h=16, n_class=3, seed=0):
        r = np.random.RandomState(seed)

        def net(i, o):
            return (r.randn(i, o) / np.sqrt(i), np.zeros(o), r.randn(o, o) / np.sqrt(o), np.zeros(o))

        self.F = net(d, h)
        self.G = net(2 * d, h)
        self.H = net(2 * h, h)
        self.W = r.randn(h, n_class) / np.sqrt(h)

    def forward(self, a, b, la, lb):
        beta, alpha = align(a, b, mlp(a, *self.F), mlp(b, *self.F), la, lb)
        v1 = mlp(np.concatenate([a, beta], -1), *self.G)
        v2 = mlp(np.concatenate([b, alpha], -1), *self.G)
        v1 = v1 * (np.arange(a.shape[1])[None] < la[:, None])[..., None]
        v2 = v2 * (np.arange(b.shape[1])[None] < lb[:, None])[..., None]
        y = mlp(np.concatenate([v1.sum(1), v2.sum(1)], -1), *self.H)
        return y @ self.W
