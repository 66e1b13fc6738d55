"""Set Transformer blocks (MAB, SAB, ISAB, PMA) for point clouds of different sizes."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class MAB(nn.Module):
    """Multihead attention block. `Y_mask` [B, n] is 1 for members of the set Y, 0 for filling."""

    def __init__(self, dim_Q, dim_K, dim_V, num_heads, ln=False):
        super(MAB, self).__init__()
        self.dim_V = dim_V
        self.num_heads = num_heads
        self.fc_q = nn.Linear(dim_Q, dim_V)
        self.fc_k = nn.Linear(dim_K, dim_V)
        self.fc_v = nn.Linear(dim_K, dim_V)
        self.ln0 = nn.LayerNorm(dim_V) if ln else nn.Identity()
        self.ln1 = nn.LayerNorm(dim_V) if ln else nn.Identity()
        self.fc_o = nn.Linear(dim_V, dim_V)

    def forward(self, Q, K, Y_mask=None):
        Q = self.fc_q(Q)
        K, V = self.fc_k(K), self.fc_v(K)

        # heads go in front of the batch: all sets of head 0, all sets of head 1, ...
        split = self.dim_V // self.num_heads
        Q_ = torch.cat(Q.split(split, 2), 0)
        K_ = torch.cat(K.split(split, 2), 0)
        V_ = torch.cat(V.split(split, 2), 0)

        A = Q_.bmm(K_.transpose(1, 2)) / math.sqrt(split)
        if Y_mask is not None:
            m = Y_mask.bool().repeat(self.num_heads, 1).unsqueeze(1)
            A = A.masked_fill(~m, -1e9)
        A = torch.softmax(A, 2)
        O = torch.cat((Q_ + A.bmm(V_)).split(Q.size(0), 0), 2)
        O = self.ln0(O)
        O = O + F.relu(self.fc_o(O))
        return self.ln1(O)


class SAB(nn.Module):
    def __init__(self, dim_in, dim_out, num_heads, ln=False):
        super(SAB, self).__init__()
        self.mab = MAB(dim_in, dim_in, dim_out, num_heads, ln=ln)

    def forward(self, X, mask=None):
        return self.mab(X, X, mask)


class ISAB(nn.Module):
    def __init__(self, dim_in, dim_out, num_heads, num_inds, ln=False):
        super(ISAB, self).__init__()
        self.I = nn.Parameter(torch.Tensor(1, num_inds, dim_out))
        nn.init.xavier_uniform_(self.I)
        self.mab0 = MAB(dim_out, dim_in, dim_out, num_heads, ln=ln)
        self.mab1 = MAB(dim_in, dim_out, dim_out, num_heads, ln=ln)

    def forward(self, X, mask=None):
        H = self.mab0(self.I.repeat(X.size(0), 1, 1), X, mask)
        return self.mab1(X, H)


class PMA(nn.Module):
    def __init__(self, dim, num_heads, num_seeds, ln=False):
        super(PMA, self).__init__()
        self.S = nn.Parameter(torch.Tensor(1, num_seeds, dim))
        nn.init.xavier_uniform_(self.S)
        self.mab = MAB(dim, dim, dim, num_heads, ln=ln)

    def forward(self, X, mask=None):
        return self.mab(self.S.repeat(X.size(0), 1, 1), X, mask)


class PointClassifier(nn.Module):
    def __init__(self, dim_input=3, dim_hidden=32, num_heads=4, num_inds=8, classes=10):
        super(PointClassifier, self).__init__()
        self.enc = nn.ModuleList([
            ISAB(dim_input, dim_hidden, num_heads, num_inds),
            ISAB(dim_hidden, dim_hidden, num_heads, num_inds),
        ])
        self.pool = PMA(dim_hidden, num_heads, 1)
        self.out = nn.Linear(dim_hidden, classes)

    def forward(self, X, mask=None):
        for layer in self.enc:
            X = layer(X, mask)
        return self.out(self.pool(X, mask).squeeze(1))


def collate(clouds):
    n = max(len(c) for c in clouds)
    X = torch.zeros(len(clouds), n, clouds[0].size(1))
    mask = torch.zeros(len(clouds), n)
    for i, c in enumerate(clouds):
        X[i, :len(c)], mask[i, :len(c)] = c, 1
    return X, mask


if __name__ == '__main__':
    X, mask = collate([torch.rand(n, 3) for n in (20, 35, 11)])
    print(PointClassifier()(X, mask).shape)
