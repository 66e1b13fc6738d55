"""Character LSTM in plain NumPy: forward, BPTT and sampling (after the min-char-rnn gist)."""
import numpy as np


def sigmoid(x):
    return 1.0 / (1.0 + np.exp(-x))


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


class CharLSTM:
    def __init__(self, vocab=20, hidden=16, seed=0):
        rng = np.random.default_rng(seed)
        self.V, self.H = vocab, hidden
        self.Wx = rng.normal(0, 0.1, (vocab, 4 * hidden))
        self.Wh = rng.normal(0, 0.1, (hidden, 4 * hidden))
        self.b = np.zeros(4 * hidden)
        self.b[hidden:2 * hidden] = 1.0  # forget gate
        self.Wy = rng.normal(0, 0.1, (hidden, vocab))
        self.by = np.zeros(vocab)

    def step(self, ids, h, c):
        H = self.H
        a = self.Wx[ids] + h @ self.Wh + self.b
        i, f, o = sigmoid(a[:, :H]), sigmoid(a[:, H:2 * H]), sigmoid(a[:, 2 * H:3 * H])
        g = np.tanh(a[:, 3 * H:])
        c_new = f * c + i * g
        return o * np.tanh(c_new), c_new, (i, f, o, g)

    def forward(self, ids):
        """ids (B, T) -> probabilities of the next char (B, T, vocab)"""
        B, T = ids.shape
        h = np.zeros((B, self.H))
        c = np.zeros((B, self.H))
        self.cache, probs = [], []
        for t in range(T):
            h_prev, c_prev = h, c
            h, c, gates = self.step(ids[:, t], h, c)
            self.cache.append((ids[:, t], h_prev, c_prev, c, h, gates))
            probs.append(softmax(h @ self.Wy + self.by))
        return np.stack(probs, axis=1)

    def backward(self, probs, targets):
        B, T, _ = probs.shape
        g = {k: np.zeros_like(getattr(self, k)) for k in ("Wx", "Wh", "b", "Wy", "by")}
        dh_next, dc_next = np.zeros((B, self.H)), np.zeros((B, self.H))
        for t in reversed(range(T)):
            ids, h_prev, c_prev, c, h, (i, f, o, u) = self.cache[t]
            dy = probs[:, t].copy()
            dy[np.arange(B), targets[:, t]] -= 1.0
            dy /= B * T
            g["Wy"] += h.T @ dy
            g["by"] += dy.sum(0)
            dh = dy @ self.Wy.T + dh_next
            tc = np.tanh(c)
            dc = dh * o * (1 - tc**2) + dc_next
            da = np.concatenate([dc * u * i * (1 - i), dc * c_prev * f * (1 - f),
                                 dh * tc * o * (1 - o), dc * i * (1 - u**2)], axis=1)
            np.add.at(g["Wx"], ids, da)
            g["Wh"] += h_prev.T @ da
            g["b"] += da.sum(0)
            dh_next, dc_next = da @ self.Wh.T, dc * f
        return g
