"""Seismic shots along a line: a shot is explained by itself and the shots before it (NumPy).

echo(q, k, v, damp)
    q, k   (T, d, S)   time of the shot, feature, station (station LAST, as in our SEG-Y dumps)
    v      (T, c, S)
    damp   (S,)        positive damping of each station
returns (T, c, S)

Stations are independent (they play the part of heads).  Logit of shot t for shot u:
    q_t . k_u / sqrt(d)  -  damp * (t - u)         older shots count for less
Shots u > t have not been fired yet and must have no influence on the result at t.
Softmax over the shots u = 0 .. t.
"""
import numpy as np


def lags(T):
    t = np.arange(T)
    return t[:, None] - t[None, :]                  # t - u


def echo(q, k, v, damp):
    T, d, S = q.shape
    amp = np.einsum("tds,uds->tus", q, k) / np.sqrt(d)
    amp = amp + np.abs(lags(T))[:, :, None] * damp
    unfired = np.triu(np.ones((T, T), bool), k=2)
    amp[unfired] = -np.inf
    amp -= amp.max(axis=1, keepdims=True)
    power = np.exp(amp)
    power /= power.sum(axis=1, keepdims=True)
    return np.einsum("tus,ucs->tcs", power, v)
