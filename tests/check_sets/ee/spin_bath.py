"""Mean field felt by test spins in a bath of sites (after the group's MATLAB code).

Particles are COLUMNS everywhere in this file:

    S       (D, M)   orientation of the M test spins
    J       (D, N)   coupling vector of the N bath sites
    X       (C, N)   what every site radiates
    frozen  (N,)     bool, True = the site is frozen out and takes no part.
                     None = all sites are alive.  At least one must be alive.

Energy of spin m on site n is E = - S_m . J_n / sqrt(D).  At T = 1 spin m occupies
site n with the Boltzmann probability exp(-E)/Z_m, where Z_m runs over the sites
that are alive, and feels the average of X with these probabilities.
"""
import numpy as np


def energies(S, J):
    """(N, M): one row per site, one column per test spin."""
    return -np.matmul(J.T, S) / np.sqrt(S.shape[0])


def mean_field(S, J, X, frozen=None):
    """Returns the field, (C, M)."""
    E = energies(S, J)
    if frozen is not None:
        E = np.where(np.asarray(frozen, bool)[:, None], np.inf, E)
    ground = E.min(axis=0)              # ground state of every spin
    boltz = np.exp(ground - E)
    Z = boltz.sum(axis=0)               # (M,)
    return (X @ boltz) / Z


if __name__ == "__main__":
    rng = np.random.default_rng(7)
    S, J, X = rng.normal(size=(6, 3)), rng.normal(size=(6, 9)), rng.normal(size=(2, 9))
    print(mean_field(S, J, X, np.arange(9) > 6).shape)
