"""GATv2 forward pass in NumPy ("How attentive are graph attention networks?").

    s(i, j) = a . LeakyReLU(Wl x_j + Wr x_i)         non-linearity before the dot product
    out_i   = sum_j softmax_j(s(i, j)) Wl x_j        j runs over the in-neighbours of i

x (N, F), Wl and Wr (heads, F, D), a (heads, D), src and dst (E,) integer arrays: edge e goes
from src[e] to dst[e].  Nodes without incoming edges get zeros.  Heads are averaged.  There is
no temperature in GATv2.
"""
import numpy as np


def leaky(t, slope=0.2):
    return np.where(t > 0, t, slope * t)


def edge_softmax(s, dst, n):
    """softmax of s (E, heads) within each group of equal dst"""
    order = np.argsort(dst, kind="stable")
    d = dst[order]
    starts = np.flatnonzero(np.r_[True, d[1:] != d[:-1]])
    ss = s[order]
    peak = np.maximum.reduceat(ss, starts, axis=0)
    count = np.diff(np.r_[starts, len(d)])
    ex = np.exp(ss - np.repeat(peak, count, axis=0))
    tot = np.add.reduceat(ex, starts, axis=0)
    out = np.empty_like(s)
    out[order] = ex / np.repeat(tot, count, axis=0)
    return out


def gatv2(x, src, dst, Wl, Wr, a):
    n = x.shape[0]
    left = np.einsum("nf,hfd->nhd", x, Wl)
    right = np.einsum("nf,hfd->nhd", x, Wr)
    out = np.zeros_like(left)
    if len(src):
        s = (leaky(left[src] + right[dst]) * a).sum(-1)
        alpha = edge_softmax(s, dst, n)
        np.add.at(out, dst, alpha[..., None] * left[src])
    return out.mean(axis=1)
