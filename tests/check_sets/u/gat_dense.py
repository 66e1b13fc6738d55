import torch
import torch.nn as nn
import torch.nn.functional as F


class GraphAttention(nn.Module):
    """Velickovic et al. (2018): attention coefficients are normalised over the neighbourhood of each node.

    h: (N, in_features) node features; adj: (N, N), adj[i, j] = 1 if j is a neighbour of i (self loops included).
    """

    def __init__(self, in_features, out_features, alpha=0.2, concat=True):
        super().__init__()
        self.W = nn.Parameter(torch.empty(in_features, out_features))
        self.a = nn.Parameter(torch.empty(2 * out_features, 1))
        nn.init.xavier_uniform_(self.W, gain=1.414)
        nn.init.xavier_uniform_(self.a, gain=1.414)
        self.f = out_features
        self.leakyrelu = nn.LeakyReLU(alpha)
        self.concat = concat

    def forward(self, h, adj):
        Wh = h @ self.W
        e = self.leakyrelu(Wh @ self.a[:self.f] + (Wh @ self.a[self.f:]).T)
        attention = F.softmax(e, dim=1)
        attention = attention * adj
        out = attention @ Wh
        return F.elu(out) if self.concat else out


class GAT(nn.Module):
    def __init__(self, nfeat=7, nhid=6, nclass=3, nheads=2):
        super().__init__()
        self.heads = nn.ModuleList(GraphAttention(nfeat, nhid) for _ in range(nheads))
        self.out = GraphAttention(nhid * nheads, nclass, concat=False)

    def forward(self, x, adj):
        x = torch.cat([head(x, adj) for head in self.heads], dim=1)
        return F.log_softmax(F.elu(self.out(x, adj)), dim=1)
