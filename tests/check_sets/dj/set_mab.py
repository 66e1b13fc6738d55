"""Set Transformer (Lee et al., 2019): MAB, ISAB and PMA.

    MAB(X, Y)    = LayerNorm(H + rFF(H)),  H = LayerNorm(X + Multihead(X, Y, Y))
    ISAB_m(X)    = MAB(X, MAB(I, X))
    PMA_k(Z)     = MAB(S, rFF(Z))

The h heads of Multihead each have width d/h and compute softmax(q k^T / sqrt(d/h)) v.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class MAB(nn.Module):
    """forward(X, Y): X (B, n, d) reads Y (B, m, d); returns (B, n, d). Sets are full,
    there is no padding. As in the paper the residual is the projected query."""

    def __init__(self, d, h):
        super().__init__()
        self.d, self.h = d, h
        self.fc_q = nn.Linear(d, d)
        self.fc_k = nn.Linear(d, d)
        self.fc_v = nn.Linear(d, d)
        self.fc_o = nn.Linear(d, d)
        self.ln0 = nn.LayerNorm(d)
        self.ln1 = nn.LayerNorm(d)

    def forward(self, X, Y):
        B = X.size(0)
        Q, K, V = self.fc_q(X), self.fc_k(Y), self.fc_v(Y)
        step = self.d // self.h
        # heads are stacked along the batch
        Q_ = torch.cat(Q.split(step, 2), 0)
        K_ = torch.cat(K.split(step, 2), 0)
        V_ = torch.cat(V.split(step, 2), 0)
        A = torch.softmax(Q_.bmm(K_.transpose(1, 2)) / self.d ** 0.5, 2)
        O = torch.cat((Q_ + A.bmm(V_)).split(B, 0), 2)
        O = self.ln0(O)
        return self.ln1(O + F.relu(self.fc_o(O)))


class ISAB(nn.Module):
    def __init__(self, d, h, m):
        super().__init__()
        self.I = nn.Parameter(torch.randn(1, m, d) * 0.2)
        self.mab0, self.mab1 = MAB(d, h), MAB(d, h)

    def forward(self, X):
        return self.mab1(X, self.mab0(self.I.expand(X.size(0), -1, -1), X))


class PMA(nn.Module):
    def __init__(self, d, h, k=1):
        super().__init__()
        self.S = nn.Parameter(torch.randn(1, k, d) * 0.2)
        self.ff, self.mab = nn.Linear(d, d), MAB(d, h)

    def forward(self, Z):
        return self.mab(self.S.expand(Z.size(0), -1, -1), F.relu(self.ff(Z)))


class SetEncoder(nn.Module):
    """(B, n, c_in) -> (B, c_out), invariant to the order of the n elements."""

    def __init__(self, c_in, c_out, d=32, h=4, m=6):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(c_in, d), ISAB(d, h, m), ISAB(d, h, m), PMA(d, h))
        self.last = nn.Linear(d, c_out)

    def forward(self, X):
        return self.last(self.net(X)[:, 0])
