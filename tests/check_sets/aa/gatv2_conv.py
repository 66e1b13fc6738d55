"""GATv2 layer (Brody et al., 2022) on an edge list, with self loops."""
import torch
import torch.nn as nn
import torch.nn.functional as F


def add_self_loops(edge_index, n):
    loop = torch.arange(n, device=edge_index.device)
    return torch.cat([edge_index, torch.stack([loop, loop])], dim=1)


class GATv2Conv(nn.Module):
    """e(i, j) = a . leaky_relu(W_l x_j + W_r x_i); softmax over the in-edges of i.

    edge_index [2, E]: row 0 the source j, row 1 the target i.
    """

    def __init__(self, in_dim=10, out_dim=8, heads=2, concat=True, slope=0.2, dropout=0.0):
        super().__init__()
        self.heads, self.out_dim, self.concat, self.slope = heads, out_dim, concat, slope
        self.lin_l = nn.Linear(in_dim, heads * out_dim)
        self.lin_r = nn.Linear(in_dim, heads * out_dim)
        self.att = nn.Parameter(torch.empty(heads, out_dim))
        nn.init.xavier_uniform_(self.att)
        self.dropout = dropout

    def forward(self, x, edge_index, return_attention=False):
        n = x.size(0)
        src, dst = add_self_loops(edge_index, n)
        left = self.lin_l(x).view(n, self.heads, self.out_dim)
        right = self.lin_r(x).view(n, self.heads, self.out_dim)
        score = (F.leaky_relu(left[src] + right[dst], self.slope) * self.att).sum(-1)

        # softmax by target node
        with torch.no_grad():
            peak = score.new_full((n, self.heads), -torch.inf)
            peak = peak.scatter_reduce(0, dst[:, None].expand_as(score), score, "amax")
        weight = (score - peak[dst]).exp()
        total = torch.zeros_like(peak).index_add(0, dst, weight)
        alpha = weight / total[dst]

        kept = F.dropout(alpha, self.dropout, self.training)
        out = left.new_zeros(n, self.heads, self.out_dim)
        out = out.index_add(0, dst, kept[..., None] * left[src])
        out = out.flatten(1) if self.concat else out.mean(1)
        return (out, alpha) if return_attention else out


class NodeClassifier(nn.Module):
    def __init__(self, in_dim=10, hidden=8, classes=4, heads=2):
        super().__init__()
        self.conv1 = GATv2Conv(in_dim, hidden, heads)
        self.conv2 = GATv2Conv(hidden * heads, classes, heads, concat=False)

    def forward(self, x, edge_index):
        return self.conv2(F.elu(self.conv1(x, edge_index)), edge_index)
