"""
CS homework 2, problem 1: self attention (numpy only).

(a) [2 pts] project the inputs:  Q = X Wq, K = X Wk, V = X Wv
(b) [2 pts] scores = Q K^T / sqrt(dk), dk = number of columns of Wk
(c) [3 pts] attention weights: softmax, so that the weights of each word (row) sum to 1
(d) [3 pts] return the weighted sum of the values for each word

X has shape (seq_len, d_in), Wq and Wk (d_in, dk), Wv (d_in, dv).
Return (context, weights) of shapes (seq_len, dv), (seq_len, seq_len).
"""
import numpy as np


def softmax(x):
    x = x - np.max(x)
    return np.exp(x) / np.sum(np.exp(x))


def self_attention(X, Wq, Wk, Wv):
    # (a)
    Q = np.dot(X, Wq)
    K = np.dot(X, Wk)
    V = np.dot(X, Wv)

    # (b)
    scores = np.dot(Q, K.T)

    # (c)
    weights = softmax(scores)

    # (d)
    context = np.dot(weights, V)
    return context, weights


if __name__ == "__main__":
    np.random.seed(0)
    X = np.random.rand(4, 3)
    ctx, w = self_attention(X, np.random.rand(3, 2), np.random.rand(3, 2), np.random.rand(3, 5))
    print("context\n", ctx)
    print("weights\n", w)
