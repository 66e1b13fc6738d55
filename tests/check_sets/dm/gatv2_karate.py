"""GATv2 on the karate club, dense version because the graph has only 34 members.

Brody, Alon, Yahav: "How attentive are graph attention networks?"  For an edge j -> i

    e_ij   = a^T LeakyReLU(W_l x_i + W_r x_j)          (0.2 slope)
    alpha  = softmax over the neighbours j of i (incl. i itself)
    x_i'   = sum_j alpha_ij (W_r x_j)

Inputs: x (N, F) features, adj (N, N) with adj[i, j] = 1 if i listens to j.  Self loops
are added here, you do not have to.  K heads, last layer averages them, the others
concatenate.  Dropout (on alpha) is only active in training.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class GATv2Dense(nn.Module):
    def __init__(self, f_in, f_out, K, average=False, p=0.5):
        super().__init__()
        self.K, self.f_out, self.average = K, f_out, average
        self.W_l = nn.Linear(f_in, K * f_out)
        self.W_r = nn.Linear(f_in, K * f_out)
        self.a = nn.Parameter(torch.randn(K, f_out) / f_out**0.5)
        self.drop = nn.Dropout(p)

    def forward(self, x, adj):
        n = x.shape[0]
        listen = (adj != 0) | torch.eye(n, dtype=torch.bool, device=x.device)
        left = self.W_l(x).view(n, self.K, self.f_out)
        right = self.W_r(x).view(n, self.K, self.f_out)
        e = F.leaky_relu(left[:, None] + right[None, :], 0.2)      # i, j, K, f
        e = torch.einsum("ijkf,kf->ijk", e, self.a)
        e = e.masked_fill(~listen[:, :, None], float("-inf"))
        alpha = self.drop(F.softmax(e, dim=1))
        y = torch.einsum("ijk,jkf->ikf", alpha, right)
        return y.mean(1) if self.average else y.flatten(1)


class Club(nn.Module):
    """Who goes with Mr. Hi and who with the officer?"""

    def __init__(self, f_in=34, hid=4, K=3):
        super().__init__()
        self.g1 = GATv2Dense(f_in, hid, K)
        self.g2 = GATv2Dense(hid * K, 2, K, average=True)

    def forward(self, x, adj):
        return self.g2(F.elu(self.g1(x, adj)), adj)
