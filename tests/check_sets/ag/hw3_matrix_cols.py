import numpy as np

# HW3, part B.  Column convention of the lecture notes: a sequence is a matrix X of shape
# (D, T), one token per COLUMN.
#
#   Q = Wq X,  K = Wk X,  V = Wv X
#   S = K^T Q / sqrt(dk)         S[j, i]: score of key j for query i
#   A = softmax of every column of S
#   Z = V A                      column i = answer for token i


def col_softmax(S):
    S = S - S.max(axis=-2, keepdims=True)
    E = np.exp(S)
    return E / E.sum(axis=-2, keepdims=True)


class SelfAttention:
    def __init__(self, d, dk, dv, causal=False, seed=0):
        rng = np.random.default_rng(seed)
        self.params = {
            "Wq": rng.normal(0, d ** -0.5, (dk, d)),
            "Wk": rng.normal(0, d ** -0.5, (dk, d)),
            "Wv": rng.normal(0, d ** -0.5, (dv, d)),
        }
        self.causal = causal
        self.dk = dk
        self.cache = None
        self.grads = {}

    def forward(self, X):
        """X (D, T) or (N, D, T)"""
        Wq, Wk, Wv = (self.params[n] for n in ("Wq", "Wk", "Wv"))
        Q, K, V = Wq @ X, Wk @ X, Wv @ X
        S = np.swapaxes(K, -1, -2) @ Q / np.sqrt(self.dk)
        if self.causal:
            T = X.shape[-1]
            # rows are keys here, so the future is BELOW the diagonal
            S = np.where(np.tril(np.ones((T, T), bool), -1), -np.inf, S)
        A = col_softmax(S)
        self.cache = X, Q, K, V, A
        return V @ A

    def backward(self, dZ):
        X, Q, K, V, A = self.cache
        t = lambda M: np.swapaxes(M, -1, -2)
        dV = dZ @ t(A)
        dA = t(V) @ dZ
        dS = A * (dA - (A * dA).sum(axis=-2, keepdims=True))
        dS = dS / np.sqrt(self.dk)
        dQ = K @ dS
        dK = Q @ t(dS)
        dX = 0
        for name, G in (("Wq", dQ), ("Wk", dK), ("Wv", dV)):
            g = G @ t(X)
            self.grads[name] = g.sum(axis=0) if g.ndim == 3 else g
            dX = dX + self.params[name].T @ G
        return dX

    def step(self, lr):
        for n in self.params:
            self.params[n] -= lr * self.grads[n]


class MeanPoolClassifier:
    """attention -> mean over tokens -> linear -> softmax cross entropy"""

    def __init__(self, d, classes, dk=8, dv=8, seed=1):
        self.att = SelfAttention(d, dk, dv, seed=seed)
        self.W = np.random.default_rng(seed).normal(0, 0.1, (classes, dv))

    def loss(self, X, y, lr=None):
        Z = self.att.forward(X)                       # N dv T
        h = Z.mean(axis=-1)                           # N dv
        logits = h @ self.W.T
        logits -= logits.max(axis=1, keepdims=True)
        logp = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
        n = len(y)
        out = -logp[np.arange(n), y].mean()
        if lr is not None:
            d = np.exp(logp)
            d[np.arange(n), y] -= 1
            d /= n
            dh = d @ self.W
            self.W -= lr * d.T @ h
            self.att.backward(np.repeat(dh[:, :, None], Z.shape[-1], axis=2) / Z.shape[-1])
            self.att.step(lr)
        return out


def numeric_grad(f, w, eps=1e-6):
    g = np.zeros_like(w)
    for i in np.ndindex(*w.shape):
        old = w[i]
        w[i] = old + eps
        hi = f()
        w[i] = old - eps
        lo = f()
        w[i] = old
        g[i] = (hi - lo) / (2 * eps)
    return g


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3, 5, 4))
    att = SelfAttention(5, 6, 7, causal=True)
    R = rng.normal(size=(3, 7, 4))
    att.forward(X)
    att.backward(R)
    for n in att.params:
        num = numeric_grad(lambda: (att.forward(X) * R).sum(), att.params[n])
        print(n, np.abs(num - att.grads[n]).max())
