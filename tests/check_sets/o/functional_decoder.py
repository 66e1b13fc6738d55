"""Sequence-to-sequence decoder on plain dictionaries of arrays."""
import numpy as np


def init_params(hidden=6, enc=5, att=4, seed=3):
    r = np.random.default_rng(seed)
    u = lambda *s: r.uniform(-0.5, 0.5, s)
    return {"Wa": u(hidden, att), "Ua": u(enc, att), "va": u(att), "Wx": u(enc, hidden), "Wh": u(hidden, hidden), "b": u(hidden)}


P = init_params()


def align(state, annotations, p):
    hidden = np.tanh((state @ p["Wa"])[:, None, :] + annotations @ p["Ua"])
    return hidden @ p["va"]


def decode_step(state, annotations, p=P):
    """state (B, 6), annotations (B, S, 5) -> next state (B, 6), alignment (B, S)"""
    e = align(state, annotations, p)
    e = np.exp(e - e.max(axis=1, keepdims=True))
    alpha = e / e.sum(axis=1, keepdims=True)
    context = np.einsum("bs,bse->be", alpha, annotations)
    return np.tanh(context @ p["Wx"] + state @ p["Wh"] + p["b"]), alpha
