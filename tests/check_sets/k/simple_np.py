import numpy as np


def softmax(x):
    return np.exp(x) / np.sum(np.exp(x), axis=-1, keepdims=True)


def scaled_dot_product(q, k, v):
    d_k = q.shape[-1]
    weights = softmax(np.matmul(q, np.swapaxes(k, -1, -2)) / np.sqrt(d_k))
    return np.matmul(weights, v), weights
