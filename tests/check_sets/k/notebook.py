import numpy as np

rs = np.random.RandomState(0)
W_Q = rs.randn(6, 6)
W_K = rs.randn(6, 6)
W_V = rs.randn(6, 6)


def attend(x):
    """x: (tokens, 6). Self-attention with the module's random weights."""
    Q, K, V = x @ W_Q, x @ W_K, x @ W_V
    scores = Q.dot(K.T) / np.sqrt(6)
    ex = np.exp(scores - scores.max(axis=1, keepdims=True))
    probs = ex / np.sum(ex)
    return probs.dot(V)
