"""Dense graph attention for Cora-size graphs.

A: (N, N) adjacency, A[i, j] = 1 if node i receives from node j (self loops are added).
Coefficients of a node sum to one over its neighbourhood.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class DenseGAT(nn.Module):
    def __init__(self, n_in=10, n_out=6, heads=2, slope=0.2):
        super().__init__()
        self.W = nn.Parameter(torch.empty(heads, n_in, n_out))
        self.l = nn.Parameter(torch.empty(heads, n_out, 1))
        self.r = nn.Parameter(torch.empty(heads, n_out, 1))
        for p in (self.W, self.l, self.r):
            nn.init.xavier_normal_(p, gain=1.4)
        self.slope = slope

    def forward(self, X, A):
        """X (N, n_in) -> (N, heads * n_out)"""
        Z = torch.matmul(X, self.W)                      # h N f
        S = Z @ self.l + (Z @ self.r).transpose(1, 2)    # h N N, row i = receiver
        S = F.leaky_relu(S, self.slope)
        adj = (A + torch.eye(len(A), dtype=A.dtype, device=A.device)) > 0
        P = F.softmax(S, dim=-1) * adj
        Y = P @ Z
        return F.elu(Y.transpose(0, 1).flatten(1))


class CoraNet(nn.Module):
    def __init__(self, n_in=10, hidden=6, classes=7, heads=2):
        super().__init__()
        self.g1 = DenseGAT(n_in, hidden, heads)
        self.g2 = DenseGAT(heads * hidden, classes, 1)

    def forward(self, X, A):
        return self.g2(self.g1(X, A), A).log_softmax(-1)
