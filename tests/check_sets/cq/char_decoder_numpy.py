"""Tutorial: a character-level decoder layer, only NumPy (forward pass).

Step 1 sinusoidal positions, step 2 masked self-attention, step 3 a small MLP.
"""
import numpy as np


def positional_encoding(n_positions, d_model):
    """PE(pos, 2i) = sin(pos / 10000^(2i/d_model)), PE(pos, 2i+1) = cos(same)"""
    pe = np.zeros((n_positions, d_model))
    pos = np.arange(n_positions)[:, None]
    i = np.arange(0, d_model, 2)[None, :]
    angle = pos / np.power(10000.0, 2 * i / d_model)
    pe[:, 0::2] = np.sin(angle)
    pe[:, 1::2] = np.cos(angle)
    return pe


def softmax(x, axis=-1):
    x = x - x.max(axis=axis, keepdims=True)
    e = np.exp(x)
    return e / e.sum(axis=axis, keepdims=True)


class DecoderLayer:
    """x: (batch, time, d_model). A character is predicted only from itself and what precedes it."""

    def __init__(self, d_model=16, n_heads=2, d_ff=32, seed=0):
        rng = np.random.default_rng(seed)
        self.n_heads, self.d_head = n_heads, d_model // n_heads
        g = lambda a, b: rng.normal(0, 1 / np.sqrt(a), (a, b))
        self.Wq, self.Wk, self.Wv, self.Wo = (g(d_model, d_model) for _ in range(4))
        self.W1, self.W2 = g(d_model, d_ff), g(d_ff, d_model)

    def split_heads(self, t):
        b, n, _ = t.shape
        return t.reshape(b, n, self.n_heads, self.d_head).transpose(0, 2, 1, 3)

    def attention(self, x):
        b, n, d = x.shape
        q = self.split_heads(x @ self.Wq)
        k = self.split_heads(x @ self.Wk)
        v = self.split_heads(x @ self.Wv)
        scores = q @ k.transpose(0, 1, 3, 2) / np.sqrt(self.d_head)
        future = np.triu(np.ones((n, n)), k=2).astype(bool)
        scores = np.where(future, -np.inf, scores)
        out = softmax(scores) @ v
        return out.transpose(0, 2, 1, 3).reshape(b, n, d) @ self.Wo

    def forward(self, x):
        x = x + positional_encoding(x.shape[1], x.shape[2])
        x = x + self.attention(x)
        return x + np.maximum(x @ self.W1, 0) @ self.W2


if __name__ == "__main__":
    layer = DecoderLayer()
    print(layer.forward(np.random.randn(2, 5, 16)).shape)
