"""Set Transformer blocks (Lee et al., 2019): MAB, ISAB and PMA.

MAB(X, Y) = LN(H + rFF(H)),  H = LN(X' + Multihead(X, Y, Y)),  X' = W_q X.
Like the authors' code the residual is taken after the query projection, and the
heads are stacked along the batch axis (head-major, i.e. row h * B + b). Unlike
it, the logits are divided by the square root of the width of one head.

Sets of different size are padded; `present` (B, N) marks the real elements with
True and padding is never attended to.
"""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class MAB(nn.Module):
    def __init__(self, dim_q, dim_kv, dim, heads):
        super().__init__()
        self.heads = heads
        self.fc_q = nn.Linear(dim_q, dim)
        self.fc_k = nn.Linear(dim_kv, dim)
        self.fc_v = nn.Linear(dim_kv, dim)
        self.fc_o = nn.Linear(dim, dim)
        self.ln0, self.ln1 = nn.LayerNorm(dim), nn.LayerNorm(dim)

    def forward(self, X, Y, present=None):
        Q, K, V = self.fc_q(X), self.fc_k(Y), self.fc_v(Y)
        Q_, K_, V_ = (torch.cat(t.chunk(self.heads, dim=2), dim=0) for t in (Q, K, V))
        A = Q_ @ K_.transpose(1, 2) / math.sqrt(Q_.size(-1))      # (H * B, n, m)
        if present is not None:
            absent = ~present.repeat(self.heads, 1).unsqueeze(1)  # (H * B, 1, m)
            A = A.masked_fill(absent, float("-inf"))
        O = torch.softmax(A, dim=2) @ V_
        O = torch.cat(O.chunk(self.heads, dim=0), dim=2)
        H = self.ln0(Q + O)
        return self.ln1(H + F.relu(self.fc_o(H)))


class ISAB(nn.Module):
    """Induced set attention: the set talks to itself through `m` inducing points."""

    def __init__(self, dim_in, dim, heads, m):
        super().__init__()
        self.I = nn.Parameter(torch.empty(1, m, dim))
        nn.init.xavier_uniform_(self.I)
        self.read = MAB(dim, dim_in, dim, heads)
        self.write = MAB(dim_in, dim, dim, heads)

    def forward(self, X, present=None):
        H = self.read(self.I.expand(X.size(0), -1, -1), X, present)
        return self.write(X, H)


class PMA(nn.Module):
    """Pooling by `k` learned seed vectors."""

    def __init__(self, dim, heads, k):
        super().__init__()
        self.S = nn.Parameter(torch.empty(1, k, dim))
        nn.init.xavier_uniform_(self.S)
        self.mab = MAB(dim, dim, dim, heads)

    def forward(self, X, present=None):
        return self.mab(self.S.expand(X.size(0), -1, -1), X, present)


class SetModel(nn.Module):
    def __init__(self, dim_in=3, dim=24, heads=4, m=5, k=1, n_out=2):
        super().__init__()
        self.enc1 = ISAB(dim_in, dim, heads, m)
        self.enc2 = ISAB(dim, dim, heads, m)
        self.pool = PMA(dim, heads, k)
        self.out = nn.Linear(dim, n_out)

    def forward(self, X, present=None):
        X = self.enc2(self.enc1(X, present), present)
        return self.out(self.pool(X, present)).squeeze(1)
