"""Notebook: self-attention in five steps (NumPy only).

A sentence of n words, each a vector of D numbers. After self-attention each word
is a weighted average over the words of the sentence.
"""
import numpy as np


def softmax(scores):
    """Turn scores into weights that sum to one."""
    scores = scores - scores.max(axis=0)
    e = np.exp(scores)
    return e / e.sum(axis=0)


def self_attention(x, w_query, w_key, w_value):
    """softmax(Q K^T / sqrt(d)) V for one sentence.

    x               : (n, D)
    w_query, w_key  : (D, d)
    w_value         : (D, e)
    Returns (z, weights): z (n, e); weights (n, n), where weights[i] says how word i
    spreads its attention over the n words, so every row weights[i] sums to one.
    """
    # Step 1: three views of each word
    queries = x @ w_query
    keys = x @ w_key
    values = x @ w_value

    # Step 2: score every word against every word, row = the word that looks
    scores = queries @ keys.T

    # Step 3: divide by the square root of the key size
    scores = scores / np.sqrt(keys.shape[1])

    # Step 4: softmax
    weights = softmax(scores)

    # Step 5: average of the values
    z = weights @ values
    return z, weights


if __name__ == "__main__":
    np.random.seed(1)
    x = np.random.randn(4, 6)
    z, w = self_attention(x, *np.random.randn(3, 6, 3))
    print(w.round(2))
