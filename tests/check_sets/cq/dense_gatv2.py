"""GATv2 on dense adjacency matrices (Brody et al., "How Attentive are Graph Attention Networks?")."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class DenseGATv2Layer(nn.Module):
    r"""
    .. math::
        e_{ij} = a^T \mathrm{LeakyReLU}(W_r x_i + W_l x_j), \qquad
        \alpha_{ij} = \mathrm{softmax}_j(e_{ij}), \qquad h_i = \sum_j \alpha_{ij} W_l x_j

    Args:
        x: (N, in_features) node features
        adj: (N, N), adj[i, j] != 0 iff there is an edge j -> i.  Self loops are added here, so
            isolated nodes are fine.
    Returns:
        (N, heads * out_features) if concat else (N, out_features)
    """

    def __init__(self, in_features=12, out_features=8, heads=3, concat=True,
                 negative_slope=0.2, dropout=0.1):
        super().__init__()
        self.heads, self.out_features, self.concat = heads, out_features, concat
        self.negative_slope = negative_slope
        self.dropout = dropout
        self.lin_l = nn.Linear(in_features, heads * out_features, bias=False)
        self.lin_r = nn.Linear(in_features, heads * out_features, bias=False)
        self.att = nn.Parameter(torch.empty(heads, out_features))
        self.bias = nn.Parameter(torch.zeros(heads * out_features if concat else out_features))
        nn.init.xavier_uniform_(self.att)

    def forward(self, x, adj):
        N = x.size(0)
        x_l = self.lin_l(x).view(N, self.heads, self.out_features)  # source j
        x_r = self.lin_r(x).view(N, self.heads, self.out_features)  # target i

        pair = F.leaky_relu(x_r[:, None] + x_l[None, :], self.negative_slope)  # (i, j, H, F)
        e = (pair * self.att).sum(-1)

        edge = (adj != 0) | torch.eye(N, dtype=torch.bool, device=x.device)
        e = e.masked_fill(~edge[:, :, None], float("-inf"))
        alpha = torch.softmax(e, dim=1)
        alpha = F.dropout(alpha, self.dropout, training=self.training)

        h = torch.einsum("ijh,jhf->ihf", alpha, x_l)
        h = h.reshape(N, -1) if self.concat else h.mean(dim=1)
        return h + self.bias


class GATv2(nn.Module):
    def __init__(self, in_features=12, hidden=8, n_classes=4, heads=3):
        super().__init__()
        self.conv1 = DenseGATv2Layer(in_features, hidden, heads)
        self.conv2 = DenseGATv2Layer(heads * hidden, n_classes, heads=1, concat=False)

    def forward(self, x, adj):
        return self.conv2(F.elu(self.conv1(x, adj)), adj)
