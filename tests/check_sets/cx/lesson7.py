# Lesson 7 - multi-head attention step by step
import numpy as np

rng = np.random.default_rng(7)


def make_weights(H, D, d):
    """every head has its own W_q, W_k, W_v of shape [D, d], in total 3*H matrices"""
    w = {}
    for name in ("q", "k", "v"):
        w[name] = rng.normal(size=(H, D, d)) / np.sqrt(D)
    w["o"] = rng.normal(size=(H * d, D)) / np.sqrt(H * d)
    return w


def softmax(s):
    # step 3: scores to probabilities (each row sums to 1, no overflow)
    top = s.max(axis=-1, keepdims=True)
    e = np.exp(s - top)
    return e / np.exp(s).sum(axis=-1, keepdims=True)


def attention(x, y, w, may_see=None):
    """x [n, D] asks, y [m, D] answers; may_see [n, m] with True where word i may use word j
    (others must not contribute; each row has a True)."""
    parts = []
    H, _, d = w["q"].shape
    for h in range(H):
        # step 1: project with the matrices of this head
        Q = x @ w["q"][h]
        K = y @ w["q"][h]
        V = y @ w["v"][h]
        # step 2: compare
        S = Q @ K.T / np.sqrt(d)
        if may_see is not None:
            S = S + may_see
        P = softmax(S)
        # step 4: average
        parts.append(P @ V)
    # step 5: put the heads side by side and mix
    return np.concatenate(parts, axis=1) @ w["o"]
