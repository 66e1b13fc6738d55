"""mhxm - multi-head x-mod attn (abbr. as in the old Matlab code)

M = Mhxm(nh); o = M(tq, tk, tv)
    tq (nb, nq, nh*dh)   txt qs
    tk (nb, nk, nh*dh)   img ks,   tv (nb, nk, nh*dh) img vs
    o  (nb, nq, nh*dh)   hd-major chans

per hd: w = smax over the nk img regs of (q.k)/sqrt(dh), wts of each (b, hd, q) sum to 1; o = w v.
Wts are memoised (the grid search calls with the same inputs many times); a memo hit must give
just what a fresh computation would.
"""
import numpy as np


def smax(a, ax):
    a = a - a.max(axis=ax, keepdims=True)
    e = np.exp(a)
    return e / e.sum(axis=ax, keepdims=True)


class Mhxm:
    def __init__(self, nh):
        self.nh = nh
        self.memo = {}

    def sp(self, x):
        nb, n, c = x.shape
        return x.reshape(nb, n, self.nh, c // self.nh).transpose(0, 2, 1, 3)

    def wts(self, q, k):
        ky = (k.shape, k.tobytes())
        if ky not in self.memo:
            nb, nh, nq, dh = q.shape
            s = np.matmul(q, k.swapaxes(2, 3)) / np.sqrt(dh)
            s = s.transpose(0, 2, 1, 3)                       # nb, nq, nh, nk
            nk = s.shape[3]
            w = smax(s.reshape(nb, nq, nh * nk), -1)
            self.memo[ky] = w.reshape(nb, nq, nh, nk).transpose(0, 2, 1, 3)
        return self.memo[ky]

    def __call__(self, tq, tk, tv):
        q, k, v = self.sp(tq), self.sp(tk), self.sp(tv)
        o = np.matmul(self.wts(q, k), v)
        return o.transpose(0, 2, 1, 3).reshape(tq.shape)
