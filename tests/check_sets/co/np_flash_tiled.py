"""FlashAttention forward pass, tile by tile, in NumPy. For explanation only, it is slow.

O = softmax(alpha Q K^T) V for one head, alpha = 1/sqrt(d), optionally causal. With N_q < N_k the causal mask is
aligned at the lower right corner (the last query sees everything). Besides O the row-wise natural
log-sum-exp L is returned, as needed in the backward pass.
"""
import numpy as np


def tile_bounds(n, size):
    return [(a, min(a + size, n)) for a in range(0, n, size)]


def flash_forward(Q, K, V, B_r=4, B_c=3, causal=False):
    """Q (N_q, d), K (N_k, d), V (N_k, d_v) -> O (N_q, d_v), L (N_q,)"""
    N_q, d = Q.shape
    N_k, d_v = V.shape
    assert N_q <= N_k or not causal
    alpha = d ** -0.5
    gap = N_k - N_q
    O = np.zeros((N_q, d_v))
    L = np.zeros(N_q)
    for i0, i1 in tile_bounds(N_q, B_r):
        Qi = Q[i0:i1] * alpha
        mu = np.full(i1 - i0, -np.inf)
        ell = np.zeros(i1 - i0)
        acc = np.zeros((i1 - i0, d_v))
        for j0, j1 in tile_bounds(N_k, B_c):
            if causal and j0 > i1 - 1 + gap:
                break
            S = Qi @ K[j0:j1].T
            if causal:
                rows = np.arange(i0, i1)[:, None] + gap
                cols = np.arange(j0, j1)[None, :]
                S = np.where(cols <= rows, S, -np.inf)
            mu_new = np.maximum(mu, S.max(axis=1))
            # every row has met key 0 by the end of the first tile, so mu_new is finite
            P = np.exp(S - mu_new[:, None])
            kappa = np.exp(mu - mu_new)
            ell = kappa * ell + P.sum(axis=1)
            acc = kappa[:, None] * acc + P @ V[j0:j1]
            mu = mu_new
        O[i0:i1] = acc / ell[:, None]
        L[i0:i1] = mu + np.log(ell)
    return O, L


def flash_backward(Q, K, V, O, dO, L, causal=False):
    """Gradients from the saved (O, L), untiled."""
    alpha = Q.shape[1] ** -0.5
    S = alpha * Q @ K.T
    if causal:
        gap = K.shape[0] - Q.shape[0]
        S = np.where(np.arange(K.shape[0])[None] <= np.arange(Q.shape[0])[:, None] + gap, S, -np.inf)
    P = np.exp(S - L[:, None])
    dV = P.T @ dO
    dP = dO @ V.T
    D = (dO * O).sum(axis=1, keepdims=True)
    dS = P * (dP - D)
    return alpha * dS @ K, alpha * dS.T @ Q, dV
