"""Point Transformer layer (Zhao et al. 2021): vector attention in a k-neighbourhood.

    y_i = sum_{j in N(i)}  softmax_j( g( f(x_i) - p(x_j) + D_ij ) )  *  ( a(x_j) + D_ij )
    D_ij = t(P_i - P_j)

'*' is elementwise, the softmax runs over the neighbours j separately for every channel.
X (B, n, c) features, P (B, n, 3) coordinates, k <= n neighbours (a point is its own
neighbour). There is no scaling by sqrt(c), it is subtraction attention.
Returns (B, n, c), with the residual X added.
"""
import torch
from torch import nn


class PT(nn.Module):
    def __init__(self, c, k):
        super().__init__()
        self.k = k
        self.f = nn.Linear(c, c)
        self.p = nn.Linear(c, c)
        self.a = nn.Linear(c, c)
        self.t = nn.Sequential(nn.Linear(3, c), nn.ReLU(), nn.Linear(c, c))
        self.g = nn.Sequential(nn.Linear(c, c), nn.ReLU(), nn.Linear(c, c))

    def forward(self, X, P):
        B, n, c = X.shape
        N = torch.cdist(P, P).topk(self.k, -1, largest=False)[1]       # B n k
        b = torch.arange(B, device=X.device).view(B, 1, 1)
        D = self.t(P[:, :, None] - P[b, N])                            # B n k c
        w = self.g(self.f(X)[:, :, None] - self.p(X)[b, N] + D)
        w = w.softmax(2)
        return X + (w * (self.a(X)[b, N] + D)).sum(2)
