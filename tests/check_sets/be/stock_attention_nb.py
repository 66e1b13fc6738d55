# Exported from the notebook "04_attention_forecast.ipynb"
# Self attention over the last days of indicators, then a ridge regression.
import numpy as np

SEED = 7
INDICATORS = ["open", "high", "low", "close", "volume", "rsi", "macd", "atr"]


def make_windows(data, length):
    """data (T, F) -> X (T - length, length, F), y next close"""
    X = np.stack([data[i:i + length] for i in range(len(data) - length)])
    y = data[length:, INDICATORS.index("close")]
    return X, y


def zscore(data):
    return (data - data.mean(0)) / (data.std(0) + 1e-8)


def stable_softmax(a, axis=-1):
    a = a - a.max(axis=axis, keepdims=True)
    e = np.exp(a)
    return e / e.sum(axis=axis, keepdims=True)


class SelfAttention:
    """Scaled dot-product self attention (Vaswani et al.), softmax(QK^T / sqrt(d_k)) V.

    transform: (N, T, F) -> (N, T, d_v).  Days may look in both directions, the
    window lies in the past anyway.
    """

    def __init__(self, n_features, d_k=16, d_v=16, seed=SEED):
        rng = np.random.default_rng(seed)
        s = 1.0 / np.sqrt(n_features)
        self.w_q = rng.uniform(-s, s, (n_features, d_k))
        self.w_k = rng.uniform(-s, s, (n_features, d_k))
        self.w_v = rng.uniform(-s, s, (n_features, d_v))
        self.weights_ = None

    def transform(self, X):
        Q = X @ self.w_q
        K = X @ self.w_k
        V = X @ self.w_v
        d_k = K.shape[1]
        scores = np.einsum("nid,njd->nij", Q, K) / np.sqrt(d_k)
        self.weights_ = stable_softmax(scores)
        return self.weights_ @ V


class Ridge:
    def __init__(self, alpha=1.0):
        self.alpha = alpha

    def fit(self, A, y):
        A = np.c_[A, np.ones(len(A))]
        self.coef_ = np.linalg.solve(A.T @ A + self.alpha * np.eye(A.shape[1]), A.T @ y)
        return self

    def predict(self, A):
        return np.c_[A, np.ones(len(A))] @ self.coef_


def main():
    rng = np.random.default_rng(SEED)
    data = zscore(rng.normal(size=(120, len(INDICATORS))).cumsum(0))
    X, y = make_windows(data, 10)
    feats = SelfAttention(X.shape[-1]).transform(X)[:, -1]
    model = Ridge().fit(feats[:80], y[:80])
    print("rmse", np.sqrt(np.mean((model.predict(feats[80:]) - y[80:]) ** 2)))


if __name__ == "__main__":
    main()
