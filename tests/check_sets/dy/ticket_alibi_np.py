"""Support-ticket model, NumPy port of the ALiBi layer; long tickets come chunk by chunk.

attend_chunk(q, k, v, q_start) -> (H, Lq, d)
    q     (H, Lq, d)   queries of positions q_start .. q_start + Lq - 1
    k, v  (H, Lk, d)   keys and values of positions 0 .. Lk - 1, Lk >= q_start + Lq
Query i (absolute) attends to keys j <= i with logit q.k / sqrt(d) - slope_h * (i - j).

Slopes as published: for H a power of two slope_h = 2 ** (-8 (h + 1) / H), h = 0 .. H - 1;
otherwise those of the next lower power of two P, followed by every other slope of 2P
(the first, the third, ...) until H are there.
"""
import math
import numpy as np


def slopes(H):
    def power(n):
        return [2.0 ** (-8.0 * (i + 1) / n) for i in range(n)]

    P = 2 ** int(math.floor(math.log2(H)))
    got = power(P)
    if P != H:
        got = got + power(2 * P)[0::2][:H - P]
    return np.array(got)


def attend_chunk(q, k, v, q_start):
    H, Lq, d = q.shape
    i = q_start + np.arange(Lq)[:, None]
    j = np.arange(k.shape[1])[None, :]
    logit = np.einsum("hid,hjd->hij", q, k) / math.sqrt(d)
    logit = logit - slopes(H)[:, None, None] * (i - j)
    logit = np.where(j <= i, logit, -np.inf)
    logit = logit - logit.max(-1, keepdims=True)
    w = np.exp(logit)
    return np.einsum("hij,hjd->hid", w / w.sum(-1, keepdims=True), v)
