"""Additive attention, from scratch, for the statute summariser (seminar code).

    e_ij  = v^T tanh(W s_i + U h_j)
    a_ij  = softmax_j(e_ij)
    c_i   = sum_j a_ij h_j

s: decoder states, h: encoder annotations.
"""
import numpy as np
from numpy.typing import NDArray


def softmax(x: NDArray, axis: int = -1) -> NDArray:
    x = x - np.max(x, axis=axis, keepdims=True)
    ex = np.exp(x)
    return ex / np.sum(ex, axis=axis, keepdims=True)


def init_params(dec: int = 10, enc: int = 12, att: int = 8, seed: int = 1) -> dict:
    g = np.random.default_rng(seed)
    return {
        "W": g.standard_normal((dec, att)) / np.sqrt(dec),
        "U": g.standard_normal((enc, att)) / np.sqrt(enc),
        "v": g.standard_normal(att),
    }


def additive_attention(params: dict, s: NDArray, h: NDArray, h_len=None):
    """
    Parameters
    ----------
    params : dict from ``init_params``
    s : (batch, Lq, dec)
    h : (batch, Lk, enc)
    h_len : (batch,) ints >= 1, how many annotations of each document are real

    Returns
    -------
    context : (batch, Lq, enc)
    weights : (batch, Lq, Lk)
    """
    ws = s @ params["W"]                                   # b, Lq, att
    uh = h @ params["U"]                                   # b, Lk, att
    hidden = np.tanh(ws[:, :, None, :] + uh[:, None, :, :])
    e = hidden @ params["v"]                               # b, Lq, Lk

    if h_len is not None:
        real = np.arange(h.shape[1])[None, :] < np.asarray(h_len)[:, None]
        e = np.where(real[:, None, :], e, -np.inf)

    a = softmax(e, axis=-1)
    return a @ h, a
