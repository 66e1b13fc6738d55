"""Set Transformer modules (Lee et al. 2019) for point sets of different sizes."""
import math
from typing import Optional

import torch
import torch.nn as nn


class MAB(nn.Module):
    """Multihead attention block: queries X, keys and values from Y."""

    def __init__(self, dim_q, dim_k, dim, heads, ln=True):
        super().__init__()
        self.heads, self.dim = heads, dim
        self.fc_q = nn.Linear(dim_q, dim)
        self.fc_k = nn.Linear(dim_k, dim)
        self.fc_v = nn.Linear(dim_k, dim)
        self.fc_o = nn.Linear(dim, dim)
        self.ln0 = nn.LayerNorm(dim) if ln else nn.Identity()
        self.ln1 = nn.LayerNorm(dim) if ln else nn.Identity()

    def forward(self, X, Y, y_size: Optional[torch.Tensor] = None):
        Q, K, V = self.fc_q(X), self.fc_k(Y), self.fc_v(Y)
        d = self.dim // self.heads
        # heads are stacked in front of the batch: (heads * B, n, d)
        Q_ = torch.cat(Q.split(d, 2), 0)
        K_ = torch.cat(K.split(d, 2), 0)
        V_ = torch.cat(V.split(d, 2), 0)
        logits = Q_.bmm(K_.transpose(1, 2)) / math.sqrt(d)
        if y_size is not None:
            empty = torch.arange(Y.size(1), device=Y.device)[None, :] >= y_size[:, None]
            logits = logits.masked_fill(empty.repeat(self.heads, 1)[:, None, :], -math.inf)
        A = torch.softmax(logits, 2)
        O = torch.cat((Q_ + A.bmm(V_)).split(Q.size(0), 0), 2)
        O = self.ln0(O)
        return self.ln1(O + torch.relu(self.fc_o(O)))


class ISAB(nn.Module):
    def __init__(self, dim_in, dim, heads, n_ind):
        super().__init__()
        self.I = nn.Parameter(torch.empty(1, n_ind, dim))
        nn.init.xavier_uniform_(self.I)
        self.mab0 = MAB(dim, dim_in, dim, heads)
        self.mab1 = MAB(dim_in, dim, dim, heads)

    def forward(self, X, size=None):
        H = self.mab0(self.I.expand(X.size(0), -1, -1), X, size)
        return self.mab1(X, H)          # every inducing point is real, nothing to mask


class PMA(nn.Module):
    def __init__(self, dim, heads, n_seeds):
        super().__init__()
        self.S = nn.Parameter(torch.empty(1, n_seeds, dim))
        nn.init.xavier_uniform_(self.S)
        self.mab = MAB(dim, dim, dim, heads)

    def forward(self, X, size=None):
        return self.mab(self.S.expand(X.size(0), -1, -1), X, size)


class SetTransformer(nn.Module):
    def __init__(self, dim_in=3, dim=32, heads=4, n_ind=6, n_out=1, classes=5):
        super().__init__()
        self.enc = nn.ModuleList([ISAB(dim_in, dim, heads, n_ind), ISAB(dim, dim, heads, n_ind)])
        self.pool = PMA(dim, heads, n_out)
        self.head = nn.Linear(dim * n_out, classes)

    def forward(self, X, size=None):
        for layer in self.enc:
            X = layer(X, size)
        return self.head(self.pool(X, size).flatten(1))
