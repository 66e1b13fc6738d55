"""Set models for the jet tagging study (particles are an unordered set).

MAB / ISAB / PMA after Lee et al. 2019, plus masks, since jets have different
numbers of particles. Heads are stacked along the batch axis, head-major.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class MAB(nn.Module):
    """
    Q: [B, n, dim_Q], K: [B, m, dim_K]
    absent: bool [B, m], True for particles that are not there
    """

    def __init__(self, dim_Q, dim_K, dim_V, num_heads, ln=False):
        super().__init__()
        self.dim_V, self.num_heads = dim_V, num_heads
        self.fc_q = nn.Linear(dim_Q, dim_V)
        self.fc_k = nn.Linear(dim_K, dim_V)
        self.fc_v = nn.Linear(dim_K, dim_V)
        self.ln0 = nn.LayerNorm(dim_V) if ln else nn.Identity()
        self.ln1 = nn.LayerNorm(dim_V) if ln else nn.Identity()
        self.fc_o = nn.Linear(dim_V, dim_V)

    def forward(self, Q, K, absent=None):
        Q = self.fc_q(Q)
        K, V = self.fc_k(K), self.fc_v(K)
        w = self.dim_V // self.num_heads
        Q_ = torch.cat(Q.split(w, 2), 0)
        K_ = torch.cat(K.split(w, 2), 0)
        V_ = torch.cat(V.split(w, 2), 0)
        E = Q_.bmm(K_.transpose(1, 2)) / w ** 0.5
        if absent is not None:
            E = E.masked_fill(absent.repeat(self.num_heads, 1).unsqueeze(1), float("-inf"))
        A = torch.softmax(E, 2)
        O = torch.cat((Q_ + A.bmm(V_)).split(Q.size(0), 0), 2)
        O = self.ln0(O)
        return self.ln1(O + F.relu(self.fc_o(O)))


class SAB(nn.Module):
    def __init__(self, din, dout, heads, ln=False):
        super().__init__()
        self.mab = MAB(din, din, dout, heads, ln)

    def forward(self, X, absent=None):
        return self.mab(X, X, absent)


class ISAB(nn.Module):
    def __init__(self, din, dout, heads, num_inds, ln=False):
        super().__init__()
        self.I = nn.Parameter(torch.empty(1, num_inds, dout))
        nn.init.xavier_uniform_(self.I)
        self.mab0 = MAB(dout, din, dout, heads, ln)
        self.mab1 = MAB(din, dout, dout, heads, ln)

    def forward(self, X, absent=None):
        H = self.mab0(self.I.repeat(X.size(0), 1, 1), X, absent)
        return self.mab1(X, H)


class PMA(nn.Module):
    def __init__(self, dim, heads, num_seeds, ln=False):
        super().__init__()
        self.S = nn.Parameter(torch.empty(1, num_seeds, dim))
        nn.init.xavier_uniform_(self.S)
        self.mab = MAB(dim, dim, dim, heads, ln)

    def forward(self, X, absent=None):
        return self.mab(self.S.repeat(X.size(0), 1, 1), X, absent)


class JetTagger(nn.Module):
    def __init__(self, n_feat=4, dim=64, heads=4, inds=16, classes=5):
        super().__init__()
        self.enc0 = ISAB(n_feat, dim, heads, inds, ln=True)
        self.enc1 = ISAB(dim, dim, heads, inds, ln=True)
        self.pool = PMA(dim, heads, 1)
        self.out = nn.Linear(dim, classes)

    def forward(self, particles, counts):
        """counts: long [B], particles really in each jet"""
        absent = torch.arange(particles.size(1), device=particles.device)[None] >= counts[:, None]
        h = self.enc1(self.enc0(particles, absent), absent)
        return self.out(self.pool(h, absent).squeeze(1))
