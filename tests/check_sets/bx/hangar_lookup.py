"""Look-up of earlier findings for an aircraft part (maintenance hangar).

`consult` lets the open work orders attend to the findings on file, ordinary
scaled dot-product attention with several heads.  `applies[i, j]` is True when
finding j concerns the same part family as order i; only those are consulted,
and each order has at least one.
"""
import numpy as np


def _softmax(a):
    a = a - np.max(a, axis=-1, keepdims=True)
    e = np.exp(a)
    return e / np.sum(e, axis=-1, keepdims=True)


def consult(orders, findings, applies, W, n_heads=4):
    """
    orders    (n, dim)
    findings  (m, dim)
    applies   (n, m) bool
    W         dict of 'Q', 'K', 'V', 'O', each (dim, dim)
    returns   (n, dim) and the weights (n_heads, n, m)
    """
    n, dim = orders.shape
    depth = dim // n_heads

    def heads(x, w):
        return np.moveaxis((x @ w).reshape(len(x), n_heads, depth), 1, 0)

    Q = heads(orders, W["Q"])
    K = heads(findings, W["K"])
    V = heads(findings, W["V"])

    scores = np.matmul(Q, np.swapaxes(K, 1, 2)) / depth
    scores = scores * applies
    weights = _softmax(scores)
    mixed = np.moveaxis(np.matmul(weights, V), 0, 1).reshape(n, dim)
    return mixed @ W["O"], weights


class WorkOrderDesk:
    def __init__(self, weights, n_heads=4):
        self.weights = weights
        self.n_heads = n_heads

    def suggest(self, orders, families, findings, finding_families, best=3):
        applies = families[:, None] == finding_families[None, :]
        _, w = consult(orders, findings, applies, self.weights, self.n_heads)
        return np.argsort(-w.mean(0), axis=1)[:, :best]


if __name__ == "__main__":
    g = np.random.default_rng(11)
    W = {k: g.normal(size=(16, 16)) / 4 for k in "QKVO"}
    desk = WorkOrderDesk(W)
    print(desk.suggest(g.normal(size=(3, 16)), np.array([0, 1, 0]), g.normal(size=(8, 16)), np.arange(8) % 2))
