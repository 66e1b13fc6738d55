"""Set transformer for point clouds: MAB, SAB, ISAB, PMA."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class MAB(nn.Module):
    """Multihead attention block: X asks, Y answers. X [B, n, dim_Q], Y [B, m, dim_K].

    y_mask: bool [B, m], True = point exists.
    """

    def __init__(self, dim_Q, dim_K, dim_V, num_heads, ln=False):
        super().__init__()
        self.dim_V, self.num_heads = dim_V, num_heads
        self.fc_q = nn.Linear(dim_Q, dim_V)
        self.fc_k = nn.Linear(dim_K, dim_V)
        self.fc_v = nn.Linear(dim_K, dim_V)
        self.fc_o = nn.Linear(dim_V, dim_V)
        self.ln0 = nn.LayerNorm(dim_V) if ln else nn.Identity()
        self.ln1 = nn.LayerNorm(dim_V) if ln else nn.Identity()

    def forward(self, X, Y, y_mask=None):
        B, n, _ = X.shape
        H, d = self.num_heads, self.dim_V // self.num_heads
        Q, K, V = self.fc_q(X), self.fc_k(Y), self.fc_v(Y)
        # heads go to the front of the batch
        Q_ = torch.cat(Q.split(d, 2), 0)
        K_ = torch.cat(K.split(d, 2), 0)
        V_ = torch.cat(V.split(d, 2), 0)
        E = Q_.bmm(K_.transpose(1, 2)) / math.sqrt(d)
        if y_mask is not None:
            E = E.masked_fill(~y_mask.repeat(H, 1).unsqueeze(1), torch.finfo(E.dtype).min)
        A = torch.softmax(E, 2)
        O = A.bmm(V_)
        O = O.view(B, H, n, d).transpose(1, 2).reshape(B, n, self.dim_V)
        O = self.ln0(Q + O)
        return self.ln1(O + F.relu(self.fc_o(O)))


class SAB(nn.Module):
    def __init__(self, dim_in, dim_out, num_heads, ln=False):
        super().__init__()
        self.mab = MAB(dim_in, dim_in, dim_out, num_heads, ln=ln)

    def forward(self, X, mask=None):
        return self.mab(X, X, mask)


class ISAB(nn.Module):
    def __init__(self, dim_in, dim_out, num_heads, num_inds, ln=False):
        super().__init__()
        self.I = nn.Parameter(torch.empty(1, num_inds, dim_out))
        nn.init.xavier_uniform_(self.I)
        self.mab0 = MAB(dim_out, dim_in, dim_out, num_heads, ln=ln)
        self.mab1 = MAB(dim_in, dim_out, dim_out, num_heads, ln=ln)

    def forward(self, X, mask=None):
        return self.mab1(X, self.mab0(self.I.expand(X.size(0), -1, -1), X, mask))


class PMA(nn.Module):
    def __init__(self, dim, num_heads, num_seeds, ln=False):
        super().__init__()
        self.S = nn.Parameter(torch.empty(1, num_seeds, dim))
        nn.init.xavier_uniform_(self.S)
        self.mab = MAB(dim, dim, dim, num_heads, ln=ln)

    def forward(self, X, mask=None):
        return self.mab(self.S.expand(X.size(0), -1, -1), X, mask)


class CloudClassifier(nn.Module):
    def __init__(self, classes=40, dim=64, heads=4, inds=16):
        super().__init__()
        self.enc1 = ISAB(3, dim, heads, inds)
        self.enc2 = ISAB(dim, dim, heads, inds)
        self.pool = PMA(dim, heads, 1)
        self.out = nn.Linear(dim, classes)

    def forward(self, pts, mask=None):
        x = self.enc2(self.enc1(pts, mask), mask)
        return self.out(self.pool(x, mask).squeeze(1))
