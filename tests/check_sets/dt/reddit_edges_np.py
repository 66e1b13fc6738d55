"""Message passing with attention on a thread graph (numpy only, inference of a small model).

reply_attention(H, frm, to, Wq, Wk, Wv)
    H   (N, F)  post vectors
    frm (E,)    integer array, post that is answered to
    to  (E,)    integer array, post that reads
    Wq, Wk (F, d), Wv (F, o)

out[i] = sum over edges e with to[e] == i of  p_e * (H[frm[e]] @ Wv),
p = softmax over the edges of the same reader of (q_i . k_j)/sqrt(d).
Readers without any edge get zeros. Returns (out (N, o), p (E,)).
"""
import numpy as np


def segment_max(x, seg, n):
    out = np.full(n, -np.inf)
    np.maximum.at(out, seg, x)
    return out


def segment_sum(x, seg, n):
    out = np.zeros((n,) + x.shape[1:])
    np.add.at(out, seg, x)
    return out


def reply_attention(H, frm, to, Wq, Wk, Wv):
    n = H.shape[0]
    q, k, v = H @ Wq, H @ Wk, H @ Wv
    s = (q[to] * k[frm]).sum(axis=1) / np.sqrt(Wq.shape[1])
    # shift by the largest score of each reader, for safety
    top = segment_max(s, to, n)
    num = np.exp(s - top[to])
    den = segment_sum(np.exp(s), to, n)
    p = num / den[to]
    return segment_sum(p[:, None] * v[frm], to, n), p


def run(H, frm, to, layers):
    """layers: list of (Wq, Wk, Wv, Wself)"""
    for Wq, Wk, Wv, Wself in layers:
        msg, _ = reply_attention(H, frm, to, Wq, Wk, Wv)
        H = np.maximum(H @ Wself + msg, 0.0)
    return H
