"""Set Transformer: MAB and ISAB, heads laid along the batch axis.

MAB(X, Y) = H + relu(W H),  H = Q + heads(softmax(Q_h K_h^T / sqrt(d)) V_h)
with d the width of one head (dim / heads); the residual is the projected query.
The heads are consecutive slices of dim / heads channels and come back to the
place they were taken from.  ISAB(X) = MAB(X, MAB(I, X)) with m learned points I.

``ISAB(dim, heads, m)``: X (B, n, dim) -> (B, n, dim), equivariant in n; the
sets of a batch do not see each other.
"""
import math
import torch
import torch.nn as nn


class MAB(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.dim, self.heads = dim, heads
        self.fc_q = nn.Linear(dim, dim)
        self.fc_k = nn.Linear(dim, dim)
        self.fc_v = nn.Linear(dim, dim)
        self.fc_o = nn.Linear(dim, dim)

    def forward(self, X, Y):
        Q, K, V = self.fc_q(X), self.fc_k(Y), self.fc_v(Y)
        w = self.dim // self.heads
        Q_ = torch.cat(Q.split(w, 2), 0)
        K_ = torch.cat(K.split(w, 2), 0)
        V_ = torch.cat(V.split(w, 2), 0)
        A = torch.softmax(Q_.bmm(K_.transpose(1, 2)) / math.sqrt(self.dim), 2)
        O = A.bmm(V_)
        O = O.view(Q.size(0), self.heads, Q.size(1), w).transpose(1, 2)
        O = Q + O.reshape(Q.size(0), Q.size(1), self.dim)
        return O + torch.relu(self.fc_o(O))


class ISAB(nn.Module):
    def __init__(self, dim, heads, m):
        super().__init__()
        self.I = nn.Parameter(torch.empty(1, m, dim))
        nn.init.xavier_uniform_(self.I)
        self.mab0 = MAB(dim, heads)
        self.mab1 = MAB(dim, heads)

    def forward(self, X):
        H = self.mab0(self.I.expand(X.size(0), -1, -1), X)
        return self.mab1(X, H)
