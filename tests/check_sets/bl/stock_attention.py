# ---- Cell 1 -------------------------------------------------------------
# Self-attention from scratch with numpy on a window of stock returns
import numpy as np

np.random.seed(42)
WINDOW = 10
N_FEATURES = 5      # open, high, low, close, volume (z-scored)
D_K = 8


# ---- Cell 2: data -------------------------------------------------------
def make_windows(prices, window=WINDOW):
    """(T, F) -> (T - window, window, F) z-scored by window"""
    out = []
    for t in range(len(prices) - window):
        w = prices[t:t + window]
        out.append((w - w.mean(axis=0)) / (w.std(axis=0) + 1e-8))
    return np.array(out)


def fake_prices(n=60):
    steps = np.random.randn(n, N_FEATURES) * 0.01
    return 100 * np.exp(np.cumsum(steps, axis=0))


# ---- Cell 3: softmax ----------------------------------------------------
def softmax(x):
    e = np.exp(x)
    return e / np.sum(e)


# ---- Cell 4: attention --------------------------------------------------
class SelfAttention:
    """
    Scaled dot product attention on one window.

    Attention(Q, K, V) = softmax(Q K^T / sqrt(d_k)) V

    Each day (row) gets a weighted average of the values of all days in the window.
    """

    def __init__(self, n_features=N_FEATURES, d_k=D_K):
        self.d_k = d_k
        self.Wq = np.random.randn(n_features, d_k) * 0.3
        self.Wk = np.random.randn(n_features, d_k) * 0.3
        self.Wv = np.random.randn(n_features, d_k) * 0.3

    def forward(self, x):
        Q = x @ self.Wq
        K = x @ self.Wk
        V = x @ self.Wv
        scores = Q @ K.T / np.sqrt(self.d_k)
        self.weights = softmax(scores)
        return self.weights @ V


# ---- Cell 5: a tiny regressor on top ------------------------------------
class ReturnModel:
    def __init__(self):
        self.att = SelfAttention()
        self.w = np.zeros(D_K)
        self.b = 0.0

    def predict(self, x):
        h = self.att.forward(x)[-1]
        return h @ self.w + self.b, h

    def fit(self, X, y, lr=0.05, epochs=5):
        for ep in range(epochs):
            total = 0
            for x, t in zip(X, y):
                p, h = self.predict(x)
                err = p - t
                self.w -= lr * err * h
                self.b -= lr * err
                total += err ** 2
            print('epoch', ep, 'mse', total / len(X))


# ---- Cell 6 -------------------------------------------------------------
if __name__ == '__main__':
    prices = fake_prices()
    X = make_windows(prices)
    y = prices[WINDOW:, 3] / prices[WINDOW - 1:-1, 3] - 1
    model = ReturnModel()
    model.fit(X, y)
    print(model.att.weights.round(3))
