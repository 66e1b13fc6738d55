"""Lesson 4 - Attention in 20 lines of NumPy

    Attention(Q, K, V) = softmax(Q K^T / sqrt(d_k)) V

Q : (n_queries, d_k)
K : (n_keys, d_k)
V : (n_keys, d_v)
Returns the new vectors (n_queries, d_v) and the attention matrix (n_queries, n_keys). Each row of the
attention matrix is a probability distribution: "how much does word i care about word j".
"""
import numpy as np


def softmax(x):
    e_x = np.exp(x - np.max(x))
    return e_x / e_x.sum()


def attention(Q, K, V):
    d_k = Q.shape[-1]
    scores = np.dot(Q, K.T) / d_k
    weights = softmax(scores)
    return np.dot(weights, V), weights


if __name__ == "__main__":
    np.random.seed(42)
    words = np.random.randn(3, 4)
    W_q, W_k, W_v = (np.random.randn(4, 4) for _ in range(3))
    out, w = attention(words @ W_q, words @ W_k, words @ W_v)
    print("weights\n", w.round(3))
    print("output\n", out.round(3))
