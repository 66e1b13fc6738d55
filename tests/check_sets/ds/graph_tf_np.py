"""TransformerConv (Shi et al. 2021, UniMP) ported from PyG to NumPy for serving."""
import numpy as np


def segment_softmax(s, seg, n):
    """Softmax of s (E, H) within each of n segments; seg (E,) names the segment of a row."""
    top = np.full((n, s.shape[1]), -np.inf)
    np.maximum.at(top, seg, s)
    e = np.exp(s - top[seg])
    z = np.zeros_like(top)
    np.add.at(z, seg, e)
    return e / z[seg]


def graph_transformer_conv(x, edge_index, edge_attr, p, heads):
    """One layer, heads concatenated.

    x          (N, F)     node features
    edge_index (2, E)     row 0 source j, row 1 target i: messages go j -> i
    edge_attr  (E, A)
    p          dict of 'q', 'k', 'v' : (W (F, H*C), b (H*C,)), 'e': W (A, H*C),
               'skip': (W (F, H*C), b (H*C,))
    returns    (N, H*C)

    alpha_ij = softmax over the edges into i of  q_i . (k_j + e_ij) / sqrt(C)
    out_i    = W_skip x_i + b_skip + sum_j alpha_ij (v_j + e_ij)
    A node without incoming edges keeps its skip term only.
    """
    src, dst = edge_index
    N, H = len(x), heads
    q, k, v = ((x @ p[n][0] + p[n][1]).reshape(N, H, -1) for n in "qkv")
    e = (edge_attr @ p["e"]).reshape(len(src), H, -1)
    C = q.shape[-1]
    score = (q[dst] * (k[src] + e)).sum(-1) / np.sqrt(C)
    alpha = segment_softmax(score, dst, N)
    out = np.zeros_like(v)
    np.add.at(out, dst, alpha[..., None] * (v[src] + e))
    return out.reshape(N, -1) + x @ p["skip"][0] + p["skip"][1]
