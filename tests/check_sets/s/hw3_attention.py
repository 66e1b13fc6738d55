# CS 5804 - Homework 3, part 2
# Self-attention from scratch

import numpy as np

np.random.seed(0)


def softmax(z):
    e = np.exp(z - np.max(z))
    return e / np.sum(e)


class SelfAttention:
    """x: (seq_len, d_in)  ->  (seq_len, d_out)"""

    def __init__(self, d_in, d_out):
        self.d_out = d_out
        self.W_q = np.random.randn(d_in, d_out) / np.sqrt(d_in)
        self.W_k = np.random.randn(d_in, d_out) / np.sqrt(d_in)
        self.W_v = np.random.randn(d_in, d_out) / np.sqrt(d_in)

    def forward(self, x):
        Q = x @ self.W_q
        K = x @ self.W_k
        V = x @ self.W_v
        # step 1: similarity of each word with each other word
        scores = np.dot(Q, K.T) / np.sqrt(self.d_out)
        # step 2: turn into probabilities
        self.weights = softmax(scores)
        # step 3: weighted sum
        return np.dot(self.weights, V)


if __name__ == "__main__":
    x = np.random.randn(4, 8)
    att = SelfAttention(8, 6)
    print(att.forward(x).shape)
