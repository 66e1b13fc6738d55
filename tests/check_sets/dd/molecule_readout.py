import numpy as np


def softmax(z):
    z = np.exp(z - z.max(-1, keepdims=True))
    return z / z.sum(-1, keepdims=True)


def bonded_attention(atoms, bonds, Wq, Wk, Wv):
    """Scaled dot-product attention along chemical bonds.

    atoms (N, f); bonds (N, N) of 0/1, symmetric, with ones on the diagonal; W* (f, d).
    Each atom shares a total weight of one among itself and its bonded neighbours.
    Returns (N, d) and the (N, N) weights.
    """
    q, k, v = atoms @ Wq, atoms @ Wk, atoms @ Wv
    s = q @ k.T / np.sqrt(k.shape[1])
    w = softmax(s) * bonds
    return w @ v, w


def fingerprint(atoms, bonds, weights, rounds=2):
    """Sum of the atom vectors after a few rounds, one fingerprint per molecule."""
    h = atoms
    for _ in range(rounds):
        msg, _ = bonded_attention(h, bonds, *weights)
        h = np.maximum(h + msg, 0.0)
    return h.sum(axis=0)
