"""Thermal read-out of an array of wells (lab course, experiment 12).

A probe at r sits in the well i with the Boltzmann probability

    p_i = exp(-E_i / kT) / Z,     E_i = 1/2 * K * |r - c_i|^2 - D_i

(K spring constant, D_i depth), and what the photodiode shows is the mean
signal  <s>(r) = sum_i p_i s_i  with its variance  sum_i p_i (s_i - <s>)^2.

    r       (n, 3)   probe positions, micrometre
    c       (m, 3)   well centres, micrometre
    depth   (m,)     zeptojoule;  signal (m,) volt
    K       zJ / um^2, T in kelvin
    blocked (m,) bool, True = well is covered: a probe cannot sit there; at
            least one well is open
"""
import numpy as np

K_B = 1.380649e-2  # zJ / K


def log_z(a):
    top = a.max(axis=-1, keepdims=True)
    return top + np.log(np.exp(a - top).sum(axis=-1, keepdims=True))


def photodiode(r, c, depth, signal, K=1.0, T=295.0, blocked=None):
    r2 = (r ** 2).sum(-1)[:, None] - 2.0 * r @ c.T + (c ** 2).sum(-1)[None, :]
    energy = 0.5 * K * r2 - depth[None, :]
    if blocked is not None:
        energy = np.where(blocked[None, :], np.inf, energy)
    a = -energy / (K_B * T)
    p = np.exp(a - log_z(a))
    mean = p @ signal
    variance = (p * (signal[None, :] - mean[:, None]) ** 2).sum(-1)
    return mean, variance
