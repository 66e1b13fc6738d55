import numpy as np


def softmax_cols(items):
    items = np.exp(items - items.max(axis=0, keepdims=True))
    return items / items.sum(axis=0, keepdims=True)


class ColumnAttention:
    """Self-attention in the notation of "Understanding Deep Learning": tokens are COLUMNS.

    X is D x N; Q = Omega_q X + beta_q 1^T and so on; Sa[X] = V . Softmax[K^T Q / sqrt(Dq)], where the softmax works
    on each column: row m of the weights is a key, column n a query.
    """

    def __init__(self, D, H, seed=3):
        rng = np.random.default_rng(seed)
        Dq = D // H
        self.heads = [
            {name: (rng.normal(size=(Dq, D)), rng.normal(size=(Dq, 1))) for name in ("q", "k", "v")}
            for _ in range(H)
        ]
        self.omega_c = rng.normal(size=(D, D))

    def __call__(self, X):
        stack = []
        for head in self.heads:
            Q, K, V = (om @ X + beta for om, beta in (head["q"], head["k"], head["v"]))
            stack.append(V @ softmax_cols(K.T @ Q / np.sqrt(Q.shape[0])))
        return self.omega_c @ np.vstack(stack)
