"""Attention between bonded atoms, multi-head, edge list, NumPy inference code.

atoms (N, C); src, dst (M,) int arrays, bond m sends from src[m] to dst[m]; every atom is the
dst of at least one bond.  wq, wk, wv (C, H*D).  For every atom and head:

    logit_m = <q[dst_m], k[src_m]> / sqrt(D)
    p_m     = softmax of the logits over the bonds with the same dst
    out[i]  = sum over bonds m with dst_m = i of p_m v[src_m]

The largest logit of each group is subtracted for safety, which must not alter p.
Returns (out (N, H*D), p (M, H)).
"""
import numpy as np


def bond_attention(atoms, src, dst, wq, wk, wv, heads):
    n = len(atoms)
    D = wq.shape[1] // heads
    q = (atoms @ wq).reshape(n, heads, D)
    k = (atoms @ wk).reshape(n, heads, D)
    v = (atoms @ wv).reshape(n, heads, D)

    temperature = D ** -0.5
    logit = np.einsum("mhd,mhd->mh", q[dst], k[src]) / temperature

    peak = np.full((n, heads), -np.inf)
    np.maximum.at(peak, dst, logit)

    z = np.zeros((n, heads))
    np.add.at(z, dst, np.exp(logit))
    p = np.exp(logit - peak[dst]) / z[dst]

    out = np.zeros((n, heads, D))
    np.add.at(out, dst, p[..., None] * v[src])
    return out.reshape(n, heads * D), p
