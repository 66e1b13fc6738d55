'''Attention over spike trains (neural decoding project, lab rotation).

Given the binned activity of N neurons over T bins we compute scaled dot-product
self-attention between the bins and decode the animal's position.
'''
import numpy as np


def zscore(x):
    return (x - x.mean(0)) / (x.std(0) + 1e-9)


def stable_softmax(s):
    '''row-wise softmax'''
    top = s.max(axis=-1, keepdims=True)
    num = np.exp(s - top)
    den = np.exp(s).sum(axis=-1, keepdims=True)
    return num / den


class BinAttention:
    def __init__(self, n_neurons, d=6, seed=0):
        rs = np.random.RandomState(seed)
        self.Wq = rs.randn(n_neurons, d) / np.sqrt(n_neurons)
        self.Wk = rs.randn(n_neurons, d) / np.sqrt(n_neurons)
        self.Wv = rs.randn(n_neurons, d) / np.sqrt(n_neurons)

    def transform(self, X):
        '''X (T, N) -> (T, d) context, (T, T) weights'''
        Q, K, V = X @ self.Wq, X @ self.Wk, X @ self.Wv
        dk = K.shape[0]
        scores = Q @ K.T / np.sqrt(dk)
        A = stable_softmax(scores)
        return A @ V, A


class RidgeReadout:
    def __init__(self, lam=1.0):
        self.lam = lam

    def fit(self, F, y):
        F1 = np.c_[F, np.ones(len(F))]
        self.beta = np.linalg.solve(F1.T @ F1 + self.lam * np.eye(F1.shape[1]), F1.T @ y)
        return self

    def predict(self, F):
        return np.c_[F, np.ones(len(F))] @ self.beta


def simulate(T=80, N=12, seed=1):
    rs = np.random.RandomState(seed)
    pos = np.cumsum(rs.randn(T)) / 5
    rate = np.exp(-0.5 * (pos[:, None] - np.linspace(-3, 3, N)) ** 2)
    return rs.poisson(4 * rate), pos


if __name__ == '__main__':
    X, y = simulate()
    ctx, A = BinAttention(X.shape[1]).transform(zscore(X))
    print('r2', 1 - np.var(y - RidgeReadout().fit(ctx, y).predict(ctx)) / np.var(y))
