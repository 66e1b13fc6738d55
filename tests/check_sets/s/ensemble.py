"""Associative recall in the canonical ensemble.

A stored pattern x_m is a microstate; in the external field h its energy is
E_m = -<x_m, h>.  What is read out is the thermal average of an observable A.
"""
import numpy as np

K_B = 1.0


def ln_Z(minus_beta_E):
    top = np.max(minus_beta_E, axis=-1, keepdims=True)
    top = np.where(np.isneginf(top), 0.0, top)
    with np.errstate(divide="ignore"):
        return top + np.log(np.exp(minus_beta_E - top).sum(-1, keepdims=True))


def thermal_average(h, x, A, T=None, forbidden=None):
    """<A> at temperature T, one ensemble per field.

    h          (..., n, d)   fields
    x          (..., m, d)   microstates
    A          (..., m, p)   observable on each microstate
    T          temperature; sqrt(d) unless given, so that beta*E stays of order one
    forbidden  (..., n, m)   True where the microstate is out of reach (E = inf)

    An ensemble without any allowed microstate averages to zero.
    Returns <A> of shape (..., n, p) and the free energy (..., n).
    """
    if T is None:
        T = np.sqrt(h.shape[-1])
    beta = 1.0 / (K_B * T)
    E = -np.einsum("...nd,...md->...nm", h, x)
    if forbidden is not None:
        E = np.where(forbidden, np.inf, E)
    lz = ln_Z(-beta * E)
    p = np.exp(-beta * E - np.where(np.isneginf(lz), 0.0, lz))
    return np.einsum("...nm,...mp->...np", p, A), -K_B * T * lz[..., 0]
