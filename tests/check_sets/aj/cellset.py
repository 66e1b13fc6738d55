"""Donor-level prediction from sets of single cells (set transformer with padding support).

A donor is a set of cells; sets are padded to the longest one of the batch.
present: bool [B, N], True = a real cell.
"""
import math
import torch
import torch.nn as nn
import torch.nn.functional as F


class MAB(nn.Module):
    """multihead attention block MAB(X, Y) of Lee et al. (2019)

    Heads are stacked in front of the batch (head-major), like in the authors' code.
    """

    def __init__(self, dim_Q, dim_K, dim_V, num_heads, ln=False):
        super().__init__()
        assert dim_V % num_heads == 0
        self.dim_V = dim_V
        self.num_heads = num_heads
        self.fc_q = nn.Linear(dim_Q, dim_V)
        self.fc_k = nn.Linear(dim_K, dim_V)
        self.fc_v = nn.Linear(dim_K, dim_V)
        self.ln0 = nn.LayerNorm(dim_V) if ln else nn.Identity()
        self.ln1 = nn.LayerNorm(dim_V) if ln else nn.Identity()
        self.fc_o = nn.Linear(dim_V, dim_V)

    def forward(self, Q, K, present=None):
        Q = self.fc_q(Q)
        K, V = self.fc_k(K), self.fc_v(K)

        dim_split = self.dim_V // self.num_heads
        Q_ = torch.cat(Q.split(dim_split, 2), 0)
        K_ = torch.cat(K.split(dim_split, 2), 0)
        V_ = torch.cat(V.split(dim_split, 2), 0)

        S = Q_.bmm(K_.transpose(1, 2)) / math.sqrt(dim_split)
        if present is not None:
            absent = ~present.repeat(self.num_heads, 1).unsqueeze(1)
            S = S.masked_fill(absent, torch.finfo(S.dtype).min)
        A = torch.softmax(S, 2)
        O = torch.cat((Q_ + A.bmm(V_)).split(Q.size(0), 0), 2)
        O = self.ln0(O)
        O = self.ln1(O + F.relu(self.fc_o(O)))
        return O


class ISAB(nn.Module):
    def __init__(self, dim_in, dim_out, num_heads, num_inds, ln=False):
        super().__init__()
        self.I = nn.Parameter(torch.empty(1, num_inds, dim_out))
        nn.init.xavier_uniform_(self.I)
        self.mab0 = MAB(dim_out, dim_in, dim_out, num_heads, ln=ln)
        self.mab1 = MAB(dim_in, dim_out, dim_out, num_heads, ln=ln)

    def forward(self, X, present=None):
        H = self.mab0(self.I.repeat(X.size(0), 1, 1), X, present)
        return self.mab1(X, H)


class PMA(nn.Module):
    def __init__(self, dim, num_heads, num_seeds, ln=False):
        super().__init__()
        self.S = nn.Parameter(torch.empty(1, num_seeds, dim))
        nn.init.xavier_uniform_(self.S)
        self.mab = MAB(dim, dim, dim, num_heads, ln=ln)

    def forward(self, X, present=None):
        return self.mab(self.S.repeat(X.size(0), 1, 1), X, present)


class DonorClassifier(nn.Module):
    def __init__(self, n_genes=50, hidden=64, heads=4, inds=16, seeds=1, classes=2):
        super().__init__()
        self.isab1 = ISAB(n_genes, hidden, heads, inds, ln=True)
        self.isab2 = ISAB(hidden, hidden, heads, inds, ln=True)
        self.pma = PMA(hidden, heads, seeds, ln=True)
        self.out = nn.Linear(hidden, classes)

    def forward(self, X, present):
        h = self.isab2(self.isab1(X, present), present)
        return self.out(self.pma(h, present)).mean(1)


def collate(donors):
    n = max(len(d) for d in donors)
    X = donors[0].new_zeros(len(donors), n, donors[0].size(1))
    present = torch.zeros(len(donors), n, dtype=torch.bool)
    for i, d in enumerate(donors):
        X[i, : len(d)] = d
        present[i, : len(d)] = True
    return X, present
