"""Modern Hopfield recall (Ramsauer et al. 2020) in NumPy, with odd names of my own.

ghost : (G, d)  blurred patterns that someone half remembers
attic : (M, d)  stored patterns
Each round: ghost <- softmax(beta * ghost @ attic.T) @ attic, over the attic's patterns.
"""
import numpy as np


def settle(z):
    """Rows of z become shares that sum to one."""
    z = z - z.max(axis=1, keepdims=True)
    np.exp(z, out=z)
    z /= z.sum(axis=1, keepdims=True)
    return z


def energy(ghost, attic, beta):
    z = beta * ghost @ attic.T
    top = z.max(axis=1)
    lse = (np.log(np.exp(z - top[:, None]).sum(axis=1)) + top) / beta
    return -lse + 0.5 * (ghost ** 2).sum(axis=1)


def recall(ghost, attic, sealed=None, beta=None, rounds=4, tol=1e-7):
    """sealed: (M,) bool, True = this pattern is sealed off and must not take part
    (at least one stays open).  beta defaults to 1/sqrt(d) as in the paper."""
    ghost = np.array(ghost, dtype=np.float64)
    attic = np.asarray(attic, dtype=np.float64)
    if sealed is not None:
        attic = attic[~np.asarray(sealed)]
    if beta is None:
        beta = 1.0 / np.sqrt(attic.shape[1])
    for _ in range(rounds):
        share = settle(beta * ghost @ attic.T)
        fresh = share @ attic
        move = np.abs(fresh - ghost).max()
        ghost = fresh
        if move < tol:
            break
    return ghost
