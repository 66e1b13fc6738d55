"""Match pot sherds to vessel profiles (symmetric InfoNCE, NumPy with hand-made gradient).

A batch holds n pairs (sherd photo vector, profile drawing vector).  Row i of the
similarity matrix should be largest at column i, and column i at row i.
"""
import numpy as np


def normalise(x):
    n = np.linalg.norm(x, axis=1, keepdims=True)
    return x / n, n


def softmax(s, axis):
    e = np.exp(s - s.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def sherd_profile_loss(sherds, profiles, log_tau=-2.659, mask_same_vessel=None):
    """Returns loss, d loss / d sherds, d loss / d profiles.

    mask_same_vessel (n, n) bool: True for off-diagonal pairs from one vessel, which are
    not used as negatives.
    """
    q, nq = normalise(sherds)
    k, nk = normalise(profiles)
    scale = np.exp(-log_tau)
    s = scale * (q @ k.T)
    if mask_same_vessel is not None:
        s = np.where(mask_same_vessel & ~np.eye(len(s), dtype=bool), -np.inf, s)
    rows, cols = softmax(s, 1), softmax(s, 0)
    i = np.arange(len(s))
    loss = -0.5 * (np.log(rows[i, i]).mean() + np.log(cols[i, i]).mean())

    g = 0.5 * (rows + cols) - np.eye(len(s))
    g *= scale / len(s)
    gq, gk = g @ k, g.T @ q
    gq = (gq - q * (gq * q).sum(1, keepdims=True)) / nq
    gk = (gk - k * (gk * k).sum(1, keepdims=True)) / nk
    return loss, gq, gk


def train(sherds, profiles, dim=8, steps=200, lr=0.5, seed=0):
    r = np.random.default_rng(seed)
    A = r.normal(size=(sherds.shape[1], dim)) / np.sqrt(sherds.shape[1])
    B = r.normal(size=(profiles.shape[1], dim)) / np.sqrt(profiles.shape[1])
    for _ in range(steps):
        _, ga, gb = sherd_profile_loss(sherds @ A, profiles @ B, log_tau=-1.0)
        A -= lr * sherds.T @ ga
        B -= lr * profiles.T @ gb
    return A, B


def top1(sherds, profiles):
    return np.mean(np.argmax(normalise(sherds)[0] @ normalise(profiles)[0].T, 1) == np.arange(len(sherds)))


if __name__ == "__main__":
    r = np.random.default_rng(2)
    z = r.normal(size=(30, 5))
    a, b = z @ r.normal(size=(5, 20)), z @ r.normal(size=(5, 12))
    A, B = train(a, b)
    print("top-1", top1(a @ A, b @ B))
