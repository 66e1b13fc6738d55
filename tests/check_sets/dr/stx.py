"""stx -- set transformer pieces for sets of different size.

MAB(X, Y) = LN(H + rFF(H)),  H = LN(X' + Multihead(X, Y, Y)),  X' = Wq X, the
projected queries.  Multihead: `nh` heads of dim // nh numbers each, logits scaled by one
over the square root of the head size.

pad (B, n): bool, True where row j of set b is filling. Filling is never attended to.
Every set has at least one real row.

PMA: S learned seeds read a set, (B, n, di) -> (B, S, dim).
"""
import math
import torch
import torch.nn as nn
import torch.nn.functional as F


class MAB(nn.Module):
    def __init__(self, dq, dk, dim, nh):
        super().__init__()
        self.dim, self.nh = dim, nh
        self.fq, self.fk, self.fv = nn.Linear(dq, dim), nn.Linear(dk, dim), nn.Linear(dk, dim)
        self.ln0, self.ln1 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.fo = nn.Linear(dim, dim)

    def forward(self, X, Y, pad=None):
        Q, K, V = self.fq(X), self.fk(Y), self.fv(Y)
        ds = self.dim // self.nh
        Q_ = torch.cat(Q.split(ds, 2), 0)
        K_ = torch.cat(K.split(ds, 2), 0)
        V_ = torch.cat(V.split(ds, 2), 0)

        L = Q_.bmm(K_.transpose(1, 2)) / math.sqrt(self.dim)
        if pad is not None:
            m = pad.repeat_interleave(self.nh, 0).unsqueeze(1)
            L = L.masked_fill(m, float("-inf"))
        A = torch.softmax(L, 2)
        O = torch.cat((Q_ + A.bmm(V_)).split(Q.size(0), 0), 2)
        O = self.ln0(O)
        return self.ln1(O + F.relu(self.fo(O)))


class PMA(nn.Module):
    def __init__(self, di, dim, nh, S):
        super().__init__()
        self.seeds = nn.Parameter(torch.empty(1, S, dim))
        nn.init.xavier_uniform_(self.seeds)
        self.mab = MAB(dim, di, dim, nh)

    def forward(self, X, pad=None):
        return self.mab(self.seeds.repeat(X.size(0), 1, 1), X, pad)
