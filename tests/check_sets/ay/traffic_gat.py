"""Spatio-temporal forecasting of traffic speed on a sensor graph.

GRU per sensor for the time axis, dense graph attention for the road network. The
attention coefficients are shown to the road operator as a heat map, so the layers
give them back next to the features.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


def knn_adjacency(dist, k):
    """dist [N, N] road distance -> bool adjacency with self loops, row i: sensors that i listens to."""
    n = dist.shape[0]
    adj = torch.zeros(n, n, dtype=torch.bool)
    near = dist.topk(min(k + 1, n), largest=False).indices
    adj.scatter_(1, near, True)
    adj.fill_diagonal_(True)
    return adj


class DenseGAT(nn.Module):
    """Multi-head GAT layer (Velickovic et al. 2018) on a dense graph.

    Args:
        x:   [B, N, F] sensor features
        adj: [N, N] bool, True if sensor i (row) attends to sensor j (column)

    Returns:
        out:   [B, N, heads * out_feats]
        alpha: [B, heads, N, N] attention coefficients; non-negative, each row sums
               to one over the neighbours
    """

    def __init__(self, in_feats, out_feats, heads=4, slope=0.2, dropout=0.0):
        super().__init__()
        self.heads = heads
        self.out_feats = out_feats
        self.slope = slope
        self.drop = nn.Dropout(dropout)
        self.fc = nn.Linear(in_feats, heads * out_feats, bias=False)
        self.a_self = nn.Parameter(torch.empty(heads, out_feats))
        self.a_neigh = nn.Parameter(torch.empty(heads, out_feats))
        nn.init.xavier_normal_(self.a_self)
        nn.init.xavier_normal_(self.a_neigh)

    def forward(self, x, adj):
        b, n, _ = x.shape
        h = self.fc(x).view(b, n, self.heads, self.out_feats)
        left = (h * self.a_self).sum(-1).permute(0, 2, 1)           # [B, H, N]
        right = (h * self.a_neigh).sum(-1).permute(0, 2, 1)
        alpha = F.leaky_relu(left.unsqueeze(3) + right.unsqueeze(2), self.slope)
        alpha = alpha.masked_fill(~adj, -1e9)
        out = torch.einsum("bhij,bjhf->bihf", self.drop(F.softmax(alpha, dim=3)), h)
        return out.reshape(b, n, -1), alpha


class TrafficNet(nn.Module):
    def __init__(self, hidden=32, heads=4, horizon=12):
        super().__init__()
        self.rnn = nn.GRU(1, hidden, batch_first=True)
        self.gat1 = DenseGAT(hidden, hidden // heads, heads)
        self.gat2 = DenseGAT(hidden, hidden // heads, heads)
        self.norm1 = nn.LayerNorm(hidden)
        self.norm2 = nn.LayerNorm(hidden)
        self.out = nn.Linear(hidden, horizon)

    def forward(self, speed, adj, return_maps=False):
        """speed [B, T, N] -> forecast [B, horizon, N]"""
        b, t, n = speed.shape
        _, h = self.rnn(speed.permute(0, 2, 1).reshape(b * n, t, 1))
        h = h[-1].view(b, n, -1)
        y, m1 = self.gat1(h, adj)
        h = self.norm1(h + F.elu(y))
        y, m2 = self.gat2(h, adj)
        h = self.norm2(h + F.elu(y))
        pred = self.out(h).permute(0, 2, 1)
        return (pred, (m1, m2)) if return_maps else pred


class Scaler:
    def __init__(self, train):
        self.mean, self.std = train.mean(), train.std()

    def __call__(self, x):
        return (x - self.mean) / self.std

    def back(self, x):
        return x * self.std + self.mean


def masked_mae(pred, real, null=0.0):
    ok = (real != null).float()
    ok = ok / ok.mean().clamp(min=1e-6)
    return ((pred - real).abs() * ok).mean()


@torch.no_grad()
def strongest_links(net, speed, adj, top=10):
    net.eval()
    _, (_, alpha) = net(speed, adj, return_maps=True)
    mean = alpha.mean(dim=(0, 1)).masked_fill(~adj, float("-inf"))
    flat = mean.flatten().topk(top).indices
    n = adj.shape[0]
    return [(int(i) // n, int(i) % n) for i in flat]
