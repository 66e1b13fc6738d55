"""Ex. 7 -- additive attention for a batch of queries (Bahdanau 2015, in parallel form).

s : (b, m, p)  queries (decoder states)
h : (b, n, r)  keys = values (encoder states)
l : (b,)       number of encoder states which are real, 1 <= l <= n

    e[i, j] = c . tanh(A s_i + B h_j)       a[i, :] = softmax_j e[i, j], j < l
    z_i     = sum_j a[i, j] h_j

returns z (b, m, r), a (b, m, n)
"""
import torch as t
from torch import nn


class Z(nn.Module):
    def __init__(self, p, r, k):
        super().__init__()
        self.A = nn.Linear(p, k, bias=False)
        self.B = nn.Linear(r, k, bias=False)
        self.c = nn.Linear(k, 1, bias=False)

    def forward(self, s, h, l):
        u = self.A(s)[:, :, None]                  # b m 1 k
        w = self.B(h)[:, None]                     # b 1 n k
        e = self.c(t.tanh(u + w))[..., 0]          # b m n
        o = t.arange(h.shape[1], device=h.device) >= l[:, None]
        e.masked_fill_(o[:, None], -t.inf)
        a = e.softmax(2)
        return t.einsum("bmn,bnr->bmr", a, h), a
