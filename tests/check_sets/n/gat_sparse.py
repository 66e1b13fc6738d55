import torch
import torch.nn as nn
import torch.nn.functional as F


class SpGraphAttentionLayer(nn.Module):
    """Sparse version of the GAT layer.  h (N, in_features), adj (N, N) with ones at the edges, self loops included."""

    def __init__(self, in_features, out_features, alpha=0.2):
        super().__init__()
        self.W = nn.Parameter(torch.empty(in_features, out_features))
        nn.init.xavier_normal_(self.W.data, gain=1.414)
        self.a = nn.Parameter(torch.empty(1, 2 * out_features))
        nn.init.xavier_normal_(self.a.data, gain=1.414)
        self.leakyrelu = nn.LeakyReLU(alpha)

    def forward(self, h, adj):
        N = h.size(0)
        edge = adj.nonzero().t()
        z = h @ self.W
        edge_h = torch.cat((z[edge[0]], z[edge[1]]), dim=1)
        scores = self.leakyrelu(edge_h @ self.a.t()).squeeze(1)
        edge_e = torch.exp(scores)
        rowsum = torch.zeros(N, dtype=h.dtype).index_add(0, edge[0], edge_e)
        out = torch.zeros_like(z).index_add(0, edge[0], edge_e[:, None] * z[edge[1]])
        return F.elu(out / rowsum[:, None])
