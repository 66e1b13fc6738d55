"""Gossip in a village: a graph attention layer (GAT) in NumPy for a sociology course.

gossip(H, A, W, a_hear, a_tell)
    H       (n, f)     what the n villagers know
    A       (n, n)     A[i, j] = 1: villager i hears villager j; the diagonal is 1
    W       (f, g)     common projection
    a_hear  (g,)       a_tell (g,)
returns (n, g)

    z = H W
    e_ij = leaky_relu(a_hear . z_i + a_tell . z_j, slope 0.2)
    alpha_ij = exp(e_ij) / sum over the j that villager i hears of exp(e_ij)
    h'_i = sum_j alpha_ij z_j

so that each villager's trust (alpha_i1 ... alpha_in) adds up to one.
"""
import numpy as np


def leaky(x, slope=0.2):
    return np.where(x > 0, x, slope * x)


def trust(e, A):
    e = np.where(A > 0, e, -np.inf)
    t = np.exp(e - e.max())
    return t / t.sum()


def gossip(H, A, W, a_hear, a_tell):
    z = H @ W
    e = leaky((z @ a_hear)[:, None] + (z @ a_tell)[None, :])
    return trust(e, A) @ z


if __name__ == "__main__":
    g = np.random.default_rng(1)
    n, f, w = 6, 5, 3
    A = (g.random((n, n)) < 0.4).astype(int)
    np.fill_diagonal(A, 1)
    print(gossip(g.normal(size=(n, f)), A, g.normal(size=(f, w)), g.normal(size=w), g.normal(size=w)))
