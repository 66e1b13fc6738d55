"""Attention over a ledger that lies on several machines (NumPy model of the protocol).

merged(q, ledgers)
    q        (n, d)              questions
    ledgers  list of (k, v),     k (m_i, d), v (m_i, c): the part held by machine i, m_i >= 1
returns (n, c): the same as softmax(q K^T / sqrt(d)) V over ALL entries of all machines
(K, V = the parts stacked), however the ledger is divided.

Each machine answers with its own mean and with the log of its sum of exp(logits); the
broker weighs the means by these sums.
"""
import numpy as np


def answer(q, k, v):
    """One machine: (mean (n, c), lse (n,))"""
    x = q @ k.T / np.sqrt(q.shape[1])
    top = x.max(axis=1)
    p = np.exp(x - top[:, None])
    s = p.sum(axis=1)
    lse = top * np.log2(np.e) + np.log2(s)
    return (p @ v) / s[:, None], lse


def broker(answers):
    means = np.stack([m for m, _ in answers])           # (machines, n, c)
    lse = np.stack([l for _, l in answers])             # (machines, n)
    part = np.exp(lse - lse.max(axis=0))
    part = part / part.sum(axis=0)
    return np.einsum("in,inc->nc", part, means)


def merged(q, ledgers):
    return broker([answer(q, k, v) for k, v in ledgers])
