"""Transformer-XL relative multi-head attention, the four terms (a)-(d) of section 3.3.

    A_ij = (W_q x_i + u) . W_kE x_j  +  (W_q x_i + v) . W_kR R_{i-j}

R is the sinusoid table; (b) and (d) are computed for all distances at once and brought
into place by the "relative shift".  Batch second, as in kimiyoung/transformer-xl.
"""
import torch
from torch import nn


def rel_shift(t):
    """(B, H, q, k): column c of t is the distance k - 1 - c for the last query; row i must move
    left by q - 1 - i."""
    B, H, q, k = t.shape
    pad = t.new_zeros(B, H, q, 1)
    t = torch.cat([pad, t], dim=-1).view(B, H, k + 1, q)
    return t[:, :, 1:].reshape(B, H, q, k)


class RelMHA(nn.Module):
    """w: (qlen, B, D) current segment; mems: (mlen, B, D) hidden states of the last segment or
    None.  Query i sees all the memory and the segment up to i itself.  Returns (qlen, B, D).
    """

    def __init__(self, D, H):
        super().__init__()
        self.H, self.d = H, D // H
        self.q_net = nn.Linear(D, D, bias=False)
        self.kv_net = nn.Linear(D, 2 * D, bias=False)
        self.r_net = nn.Linear(D, D, bias=False)
        self.o_net = nn.Linear(D, D, bias=False)
        self.u = nn.Parameter(torch.randn(H, self.d) * 0.02)
        self.v = nn.Parameter(torch.randn(H, self.d) * 0.02)

    def table(self, klen, D, like):
        dist = torch.arange(klen - 1, -1, -1.0, device=like.device, dtype=like.dtype)
        inv = 1 / 10000 ** (torch.arange(0.0, D, 2.0, device=like.device, dtype=like.dtype) / D)
        ang = dist[:, None] * inv
        return torch.cat([ang.sin(), ang.cos()], dim=-1)

    def forward(self, w, mems=None):
        qlen, B, D = w.shape
        cat = w if mems is None else torch.cat([mems, w], dim=0)
        klen = cat.size(0)
        q = self.q_net(w).view(qlen, B, self.H, self.d)
        k, val = self.kv_net(cat).chunk(2, dim=-1)
        k = k.reshape(klen, B, self.H, self.d)
        val = val.reshape(klen, B, self.H, self.d)
        r = self.r_net(self.table(klen, D, w)).view(klen, self.H, self.d)
        AC = torch.einsum("ibnd,jbnd->bnij", q + self.u, k)
        BD = rel_shift(torch.einsum("ibnd,jnd->bnij", q + self.v, r))
        score = (AC + BD) * self.d ** -0.5
        future = torch.ones(qlen, klen, dtype=torch.bool, device=w.device).triu(1 + klen - qlen)
        prob = score.masked_fill(future, float("-inf")).softmax(dim=-1)
        vec = torch.einsum("bnij,jbnd->ibnd", prob, val).reshape(qlen, B, D)
        return self.o_net(vec)
