"""Attentive pooling of word vectors, used for the tweet sentiment baseline."""
import numpy as np


def pool(H, n_words, W, b, u):
    """Weighted mean of the words of each tweet.

    H        (tweets, max_words, dim)   word states, right padded
    n_words  (tweets,) int              number of real words, >= 1
    W (dim, k), b (k,), u (k,)          score of a word: u . tanh(h W + b)

    The weights are a softmax of the scores over the real words of a tweet.
    Returns pooled (tweets, dim) and weights (tweets, max_words), zero on the padding.
    """
    score = np.tanh(H @ W + b) @ u                                # tweets x words
    real = np.arange(H.shape[1]) < np.asarray(n_words)[:, None]
    top = np.max(score, axis=1, where=real, initial=-np.inf, keepdims=True)
    e = np.where(real, np.exp(np.minimum(score - top, 0.0)), 0.0)
    alpha = e / e.sum(axis=1, keepdims=True)
    return (alpha[:, :, None] * H).sum(axis=1), alpha


def predict(H, n_words, p):
    """Class probabilities (tweets, 3); p has W, b, u and the output layer V (dim, 3), c (3,)."""
    pooled, _ = pool(H, n_words, p["W"], p["b"], p["u"])
    z = pooled @ p["V"] + p["c"]
    z -= z.max(axis=1, keepdims=True)
    z = np.exp(z)
    return z / z.sum(axis=1, keepdims=True)
