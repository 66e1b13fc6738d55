import math
import torch
import torch.nn as nn
import torch.nn.functional as F


class MAB(nn.Module):
    def __init__(self, dim_Q, dim_K, dim_V, num_heads):
        super().__init__()
        self.dim_V = dim_V
        self.num_heads = num_heads
        self.fc_q = nn.Linear(dim_Q, dim_V)
        self.fc_k = nn.Linear(dim_K, dim_V)
        self.fc_v = nn.Linear(dim_K, dim_V)
        self.fc_o = nn.Linear(dim_V, dim_V)

    def forward(self, Q, K):
        Q = self.fc_q(Q)
        K, V = self.fc_k(K), self.fc_v(K)
        dim_split = self.dim_V // self.num_heads
        # heads go in front of the batch: (num_heads * B, n, dim_split)
        Q_ = torch.cat(Q.split(dim_split, 2), 0)
        K_ = torch.cat(K.split(dim_split, 2), 0)
        V_ = torch.cat(V.split(dim_split, 2), 0)
        A = torch.softmax(Q_.bmm(K_.transpose(1, 2)) / math.sqrt(dim_split), 2)
        O = torch.cat((Q_ + A.bmm(V_)).split(Q.size(0), 0), 2)
        return O + F.relu(self.fc_o(O))


class ISAB(nn.Module):
    def __init__(self, dim_in, dim_out, num_heads, num_inds):
        super().__init__()
        self.I = nn.Parameter(torch.empty(1, num_inds, dim_out))
        nn.init.xavier_uniform_(self.I)
        self.mab0 = MAB(dim_out, dim_in, dim_out, num_heads)
        self.mab1 = MAB(dim_in, dim_out, dim_out, num_heads)

    def forward(self, X):
        H = self.mab0(self.I.repeat(X.size(0), 1, 1), X)
        return self.mab1(X, H)


class SetTransformer(nn.Module):
    """(B, n, dim_in) -> (B, num_outputs, dim_out); order of the n elements does not matter."""

    def __init__(self, dim_in=3, dim_out=5, num_outputs=2, dim=16, heads=4, inds=6):
        super().__init__()
        self.enc = nn.Sequential(ISAB(dim_in, dim, heads, inds), ISAB(dim, dim, heads, inds))
        self.S = nn.Parameter(torch.randn(1, num_outputs, dim))
        self.pma = MAB(dim, dim, dim, heads)
        self.dec = nn.Linear(dim, dim_out)

    def forward(self, X):
        Z = self.enc(X)
        return self.dec(self.pma(self.S.repeat(Z.size(0), 1, 1), Z))
