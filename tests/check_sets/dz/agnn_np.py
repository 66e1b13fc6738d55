"""AGNN (Thekumparampil et al. 2018): propagation layers whose only parameter is one number beta.

    X      (N, F)   bag-of-words features
    A      (N, N)   symmetric 0/1 adjacency without self-loops
    W0     (F, Hd)  W1 (Hd, classes)
    betas  one float per propagation layer

    P[i, j] = softmax over j in N(i) + {i} of  beta * cos(h_i, h_j),     h <- P h

Returns class probabilities (N, classes).
"""
import numpy as np


def rowsoftmax(z):
    z = z - z.max(axis=1, keepdims=True)
    z = np.exp(z)
    return z / z.sum(axis=1, keepdims=True)


def propagate(h, A, beta):
    length = np.maximum(np.linalg.norm(h, axis=1), 1e-12)
    cos = (h @ h.T) / np.outer(length, length)
    near = (A + np.eye(len(A))) > 0
    return rowsoftmax(np.where(near, beta * cos, -np.inf)) @ h


def agnn(X, A, W0, W1, betas):
    h = np.maximum(X @ W0, 0.0)
    for beta in betas:
        h = propagate(h, A, beta)
    return rowsoftmax(h @ W1)
