"""CS homework 3, problem 2: self-attention "by hand" on a batch of sentences.

Task: implement Attention(Q, K, V) = softmax(Q K^T / sqrt(d)) V for a batch X of shape
(batch, words, features), with numpy only, and stack it in a block with a residual
connection and layer normalisation.
"""
import numpy as np


def softmax(z):
    z = z - np.max(z, axis=-1, keepdims=True)
    e = np.exp(z)
    return e / np.sum(e, axis=-1, keepdims=True)


def layer_norm(x, eps=1e-6):
    mean = x.mean(axis=-1, keepdims=True)
    std = x.std(axis=-1, keepdims=True)
    return (x - mean) / (std + eps)


class SelfAttention:
    """Single head."""

    def __init__(self, n_features, d, seed=42):
        rng = np.random.RandomState(seed)
        self.W_q = rng.randn(n_features, d) * 0.5
        self.W_k = rng.randn(n_features, d) * 0.5
        self.W_v = rng.randn(n_features, d) * 0.5
        self.d = d

    def forward(self, X):
        Q = np.dot(X, self.W_q)
        K = np.dot(X, self.W_k)
        V = np.dot(X, self.W_v)
        scores = np.matmul(Q, K.T) / np.sqrt(self.d)
        self.weights = softmax(scores)
        return np.matmul(self.weights, V)


class EncoderBlock:
    def __init__(self, n_features=4, d=4, hidden=8, seed=42):
        rng = np.random.RandomState(seed + 1)
        self.attention = SelfAttention(n_features, d, seed)
        self.W_o = rng.randn(d, n_features) * 0.5
        self.W_1 = rng.randn(n_features, hidden) * 0.5
        self.b_1 = np.zeros(hidden)
        self.W_2 = rng.randn(hidden, n_features) * 0.5
        self.b_2 = np.zeros(n_features)

    def forward(self, X):
        """X: (batch, words, n_features) -> same shape"""
        A = np.dot(self.attention.forward(X), self.W_o)
        X = layer_norm(X + A)
        H = np.maximum(0, np.dot(X, self.W_1) + self.b_1)
        return layer_norm(X + np.dot(H, self.W_2) + self.b_2)


def one_hot_sentences(sentences):
    vocab = sorted({w for s in sentences for w in s.split()})
    index = {w: i for i, w in enumerate(vocab)}
    X = np.zeros((len(sentences), len(sentences[0].split()), len(vocab)))
    for i, s in enumerate(sentences):
        for j, w in enumerate(s.split()):
            X[i, j, index[w]] = 1
    return X, vocab


if __name__ == "__main__":
    toy = ["the cat sees dog", "the dog sees cat", "cat sees the dog", "dog sees the cat"]
    X, vocab = one_hot_sentences(toy)
    block = EncoderBlock(n_features=len(vocab))
    print(vocab, X.shape)
    print(block.forward(X).round(3))
    print(block.attention.weights[0].round(2))
