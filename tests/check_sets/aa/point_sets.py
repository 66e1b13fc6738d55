"""Set Transformer pieces for point-cloud classification (Lee et al., 2019)."""
import torch
from torch import nn


class MAB(nn.Module):
    """Multihead attention block: Y = O + ff(O), O = Q' + Att(Q', K', V')."""

    def __init__(self, dim_q, dim_kv, dim, heads=4):
        super().__init__()
        self.dim, self.heads = dim, heads
        self.fc_q = nn.Linear(dim_q, dim)
        self.fc_k = nn.Linear(dim_kv, dim)
        self.fc_v = nn.Linear(dim_kv, dim)
        self.fc_o = nn.Linear(dim, dim)
        self.ln0, self.ln1 = nn.LayerNorm(dim), nn.LayerNorm(dim)

    def forward(self, Q, K, present=None):
        """Q [B, n, dim_q], K [B, m, dim_kv], present [B, m] True for real points"""
        Q = self.fc_q(Q)
        K, V = self.fc_k(K), self.fc_v(K)
        split = self.dim // self.heads
        Q_ = torch.cat(Q.split(split, 2), 0)
        K_ = torch.cat(K.split(split, 2), 0)
        V_ = torch.cat(V.split(split, 2), 0)

        S = Q_.bmm(K_.transpose(1, 2)) / split ** 0.5
        if present is not None:
            absent = (~present).repeat(self.heads, 1)[:, None, :]
            S = S.masked_fill(absent, torch.finfo(S.dtype).min)
        A = torch.softmax(S, 2)
        O = torch.cat((Q_ + A.bmm(V_)).split(Q.size(0), 0), 2)
        O = self.ln0(O)
        return self.ln1(O + torch.relu(self.fc_o(O)))


class ISAB(nn.Module):
    """Induced set attention: O(n m) instead of O(n^2)."""

    def __init__(self, dim_in, dim, heads, num_inds):
        super().__init__()
        self.I = nn.Parameter(torch.empty(1, num_inds, dim))
        nn.init.xavier_uniform_(self.I)
        self.mab0 = MAB(dim, dim_in, dim, heads)
        self.mab1 = MAB(dim_in, dim, dim, heads)

    def forward(self, X, present=None):
        H = self.mab0(self.I.expand(X.size(0), -1, -1), X, present)
        return self.mab1(X, H)


class PMA(nn.Module):
    def __init__(self, dim, heads, num_seeds):
        super().__init__()
        self.S = nn.Parameter(torch.empty(1, num_seeds, dim))
        nn.init.xavier_uniform_(self.S)
        self.mab = MAB(dim, dim, dim, heads)

    def forward(self, X, present=None):
        return self.mab(self.S.expand(X.size(0), -1, -1), X, present)


class SetClassifier(nn.Module):
    """points [B, n, 3] -> logits; the order of the points does not matter."""

    def __init__(self, dim_in=3, dim=24, heads=4, inds=5, classes=6):
        super().__init__()
        self.enc1 = ISAB(dim_in, dim, heads, inds)
        self.enc2 = ISAB(dim, dim, heads, inds)
        self.pool = PMA(dim, heads, 1)
        self.cls = nn.Linear(dim, classes)

    def forward(self, points, present=None):
        x = self.enc2(self.enc1(points, present), present)
        return self.cls(self.pool(x, present).squeeze(1))
