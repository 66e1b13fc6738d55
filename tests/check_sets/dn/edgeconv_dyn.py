"""EdgeConv with a neighbourhood that is found anew in each layer (Wang et al.
2019, DGCNN).

EdgeConv(c_in, c_out, k)
    x    (B, N, c_in) point features
    ->   (B, N, c_out)
For each point i the k nearest points j in feature space (itself included) give
    e_ij = MLP([x_i, x_j - x_i])
and the output is the maximum of e_ij over j, channel by channel.

DGCNN(c_in, classes): three EdgeConvs, their outputs side by side, a Linear,
maximum and mean over the points, a classifier.  (B, N, c_in) -> (B, classes)
"""
import torch
from torch import nn


def neighbours(x, k):
    return torch.cdist(x, x).topk(k, dim=-1, largest=False).indices


class EdgeConv(nn.Module):
    def __init__(self, c_in, c_out, k=6):
        super().__init__()
        self.k = k
        self.mlp = nn.Sequential(nn.Linear(2 * c_in, c_out), nn.LayerNorm(c_out), nn.LeakyReLU(0.2))

    def forward(self, x):
        idx = neighbours(x, self.k)
        rows = torch.arange(x.size(0), device=x.device)[:, None, None]
        near = x[rows, idx]                                   # (B, N, k, c_in)
        centre = x.unsqueeze(2).expand_as(near)
        return self.mlp(torch.cat([centre, near - centre], dim=-1)).amax(dim=2)


class DGCNN(nn.Module):
    def __init__(self, c_in=3, classes=10, k=6):
        super().__init__()
        self.c1 = EdgeConv(c_in, 16, k)
        self.c2 = EdgeConv(16, 16, k)
        self.c3 = EdgeConv(16, 32, k)
        self.mix = nn.Linear(64, 64)
        self.head = nn.Sequential(nn.Linear(128, 32), nn.ReLU(), nn.Dropout(0.3), nn.Linear(32, classes))

    def forward(self, x):
        a = self.c1(x)
        b = self.c2(a)
        c = self.c3(b)
        h = self.mix(torch.cat([a, b, c], dim=-1))
        return self.head(torch.cat([h.amax(dim=1), h.mean(dim=1)], dim=-1))
