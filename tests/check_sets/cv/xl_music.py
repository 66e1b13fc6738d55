# Transformer-XL attention for piano rolls. Notation follows the paper (u, v biases; R_{i-j}).
import torch
import torch.nn as nn


def sinusoid(pos, dim):
    inv = 1.0 / 10000 ** (torch.arange(0.0, dim, 2.0) / dim)
    a = torch.outer(pos, inv)
    return torch.cat([a.sin(), a.cos()], -1)


class RelAttn(nn.Module):
    """h: (T, B, D) current segment, mem: (M, B, D) previous hidden states or None. Time first!

    Causal: step t sees the whole memory and the segment up to t. Returns (T, B, D), no residual.
    """

    def __init__(self, D=32, n=4):
        super().__init__()
        self.n, self.d = n, D // n
        self.q = nn.Linear(D, D, bias=False)
        self.kv = nn.Linear(D, 2 * D, bias=False)
        self.r = nn.Linear(D, D, bias=False)
        self.o = nn.Linear(D, D, bias=False)
        self.u = nn.Parameter(torch.randn(n, D // n) * 0.3)
        self.v = nn.Parameter(torch.randn(n, D // n) * 0.3)

    @staticmethod
    def shift(x):
        # (T, K, B, n), the column c stands for distance K-1-c ; afterwards the column is the key
        T, K = x.shape[:2]
        pad = x.new_zeros(T, 1, *x.shape[2:])
        x = torch.cat([pad, x], 1).view(K + 1, T, *x.shape[2:])
        return x[1:].view(T, K, *x.shape[2:])

    def forward(self, h, mem=None):
        T, B, D = h.shape
        cat = h if mem is None else torch.cat([mem.detach(), h])
        K = len(cat)
        q = self.q(h).view(T, B, self.n, self.d)
        k, val = (t.view(K, B, self.n, self.d) for t in self.kv(cat).chunk(2, -1))
        R = self.r(sinusoid(torch.arange(K - 1, -1, -1.0), D)).view(K, self.n, self.d)

        AC = torch.einsum("tbnd,kbnd->tkbn", q + self.u, k)
        BD = self.shift(torch.einsum("tbnd,knd->tkbn", q + self.v, R))
        s = (AC + BD) / self.d ** 0.5
        # the rubbish which shift() leaves above the diagonal is masked here as well
        hide = torch.ones(T, K, dtype=torch.bool).triu(K - T + 1)
        p = s.masked_fill(hide[:, :, None, None], float("-inf")).softmax(1)   # axis 1 = keys
        y = torch.einsum("tkbn,kbnd->tbnd", p, val)
        return self.o(y.flatten(2))
