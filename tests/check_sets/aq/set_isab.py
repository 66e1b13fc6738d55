"""Set transformer parts for the cell-population classifier (cytometry: a sample is a bag of events)."""
import math
import torch
import torch.nn as nn
import torch.nn.functional as F


class MAB(nn.Module):
    """Multihead attention block, scaled dot products in every head.

    X [B, n, dX] queries, Y [B, m, dY] set; present [B, m] bool, True for events
    that exist: the weights over the existing events sum to one.
    """

    def __init__(self, dim_X, dim_Y, dim, num_heads, ln=True):
        super().__init__()
        self.dim, self.num_heads = dim, num_heads
        self.fc_q = nn.Linear(dim_X, dim)
        self.fc_k = nn.Linear(dim_Y, dim)
        self.fc_v = nn.Linear(dim_Y, dim)
        self.fc_o = nn.Linear(dim, dim)
        self.ln0 = nn.LayerNorm(dim) if ln else nn.Identity()
        self.ln1 = nn.LayerNorm(dim) if ln else nn.Identity()

    def forward(self, X, Y, present=None):
        Q, K, V = self.fc_q(X), self.fc_k(Y), self.fc_v(Y)
        part = self.dim // self.num_heads
        Q_ = torch.stack(Q.split(part, 2))
        K_ = torch.stack(K.split(part, 2))
        V_ = torch.stack(V.split(part, 2))
        A = torch.softmax(Q_ @ K_.transpose(-1, -2) / math.sqrt(self.dim), dim=-1)
        if present is not None:
            A = A * present[None, :, None, :]
        O = Q + torch.cat(list(A @ V_), dim=2)
        O = self.ln0(O)
        return self.ln1(O + F.relu(self.fc_o(O)))


class ISAB(nn.Module):
    def __init__(self, dim_in, dim, num_heads, num_inds):
        super().__init__()
        self.I = nn.Parameter(torch.empty(1, num_inds, dim))
        nn.init.xavier_uniform_(self.I)
        self.mab0 = MAB(dim, dim_in, dim, num_heads)
        self.mab1 = MAB(dim_in, dim, dim, num_heads)

    def forward(self, X, present=None):
        H = self.mab0(self.I.expand(X.size(0), -1, -1), X, present)
        return self.mab1(X, H)


class PMA(nn.Module):
    def __init__(self, dim, num_heads, seeds=1):
        super().__init__()
        self.S = nn.Parameter(torch.empty(1, seeds, dim))
        nn.init.xavier_uniform_(self.S)
        self.mab = MAB(dim, dim, dim, num_heads)

    def forward(self, X, present=None):
        return self.mab(self.S.expand(X.size(0), -1, -1), X, present)


class Cytometry(nn.Module):
    def __init__(self, markers, dim=64, heads=4, inds=8, classes=3):
        super().__init__()
        self.e1 = ISAB(markers, dim, heads, inds)
        self.e2 = ISAB(dim, dim, heads, inds)
        self.pool = PMA(dim, heads)
        self.cls = nn.Linear(dim, classes)

    def forward(self, events, present=None):
        x = self.e2(self.e1(events, present), present)
        return self.cls(self.pool(x, present)[:, 0])
