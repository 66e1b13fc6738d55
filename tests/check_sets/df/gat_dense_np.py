import numpy as np


def softmax(z, axis):
    z = z - z.max(axis=axis, keepdims=True)
    z = np.exp(z)
    return z / z.sum(axis=axis, keepdims=True)


def gat_layer(X, A, W, a_self, a_neigh, slope=0.2):
    """
    Dense graph attention layer for the PPI toy example.

    X (N, F)         node features
    A (N, N)         A[i, j] = 1 if node i listens to node j; loops are added
    W (K, F, D)      one projection per head
    a_self, a_neigh  (K, D)
    returns (N, K*D): elu of the attention average over each node's neighbourhood
    """
    N = X.shape[0]
    A = (A > 0) | np.eye(N, dtype=bool)
    Z = np.einsum("nf,kfd->knd", X, W)
    left = np.einsum("knd,kd->kn", Z, a_self)
    right = np.einsum("knd,kd->kn", Z, a_neigh)
    E = left[:, :, None] + right[:, None, :]
    E = np.where(E > 0, E, slope * E)
    E = np.where(A[None], E, -1e12)
    alpha = softmax(E, axis=1)
    out = np.einsum("kij,kjd->ikd", alpha, Z).reshape(N, -1)
    return np.where(out > 0, out, np.expm1(np.minimum(out, 0)))
