"""Message passing with attention on an edge list, NumPy, for the crystal
graphs of the group (bond lengths as edge features).

    message_pass(h, src, dst, length, par) -> (N, heads*d)

h       (N, F)    atom features
src,dst (E,) int  a bond is listed as src -> dst; give both directions if wanted
length  (E,)      bond length in Angstrom
par     dict: Q, K, V of shape (F, heads, d), c (heads,) decay per Angstrom

For atom i: weights over its incoming bonds,
    a_e = softmax_{e: dst_e = i} ( Q h_i . K h_src(e) / sqrt(d) - c * length_e )
and output_i = sum_e a_e V h_src(e). Atoms without incoming bond get zeros.
"""
import numpy as np


def message_pass(h, src, dst, length, par):
    n = h.shape[0]
    q = np.einsum("nf,fhd->nhd", h, par["Q"])
    k = np.einsum("nf,fhd->nhd", h, par["K"])
    v = np.einsum("nf,fhd->nhd", h, par["V"])
    heads, d = q.shape[1:]

    logit = (q[dst] * k[src]).sum(-1) / np.sqrt(d)          # (E, heads)
    logit = logit - par["c"][None, :] * length[:, None]

    top = np.full((n, heads), -np.inf)
    np.maximum.at(top, dst, logit)
    num = np.exp(logit - top[dst])
    den = np.zeros((n, heads))
    np.add.at(den, dst, num)
    alpha = num / den[dst]

    out = np.zeros((n, heads, d))
    np.add.at(out, dst, alpha[:, :, None] * v[src])
    return out.reshape(n, heads * d)
