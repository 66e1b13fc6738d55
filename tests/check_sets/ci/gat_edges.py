"""Graph attention layer (GAT) on an edge list, without torch_geometric."""
import torch
import torch.nn as nn
import torch.nn.functional as F


def edge_softmax(logits, index, n):
    """Softmax of logits (E, H) over all edges that share the same index (E,)."""
    idx = index[:, None].expand_as(logits)
    top = logits.new_full((n, logits.shape[1]), float("-inf"))
    top = top.scatter_reduce(0, idx, logits.detach(), reduce="amax")
    e = (logits - top[index]).exp()
    total = torch.zeros_like(top).index_add(0, index, e)
    return e / total[index]


class GATLayer(nn.Module):
    """x: (N, F_in) node features; edge_index: (2, E), row 0 = source, row 1 = target.

    Every node gathers from the sources of its incoming edges (self loops are added here).
    Output: (N, heads * out_dim).
    """

    def __init__(self, in_dim=8, out_dim=6, heads=3, slope=0.2, dropout=0.0):
        super().__init__()
        self.heads, self.out_dim, self.slope, self.dropout = heads, out_dim, slope, dropout
        self.lin = nn.Linear(in_dim, heads * out_dim, bias=False)
        self.a_src = nn.Parameter(torch.empty(heads, out_dim))
        self.a_dst = nn.Parameter(torch.empty(heads, out_dim))
        self.bias = nn.Parameter(torch.zeros(heads * out_dim))
        nn.init.xavier_uniform_(self.a_src)
        nn.init.xavier_uniform_(self.a_dst)

    def forward(self, x, edge_index):
        n = x.shape[0]
        edge_index = edge_index[:, edge_index[0] != edge_index[1]]
        loops = torch.arange(n, device=x.device).expand(2, n)
        src, dst = torch.cat([edge_index, loops], dim=1)
        h = self.lin(x).view(n, self.heads, self.out_dim)
        s = (h * self.a_src).sum(-1)
        d = (h * self.a_dst).sum(-1)
        alpha = edge_softmax(F.leaky_relu(s[src] + d[dst], self.slope), dst, n)
        alpha = F.dropout(alpha, self.dropout, training=self.training)
        msg = h[src] * alpha.unsqueeze(-1)
        out = torch.zeros_like(h).index_add(0, dst, msg)
        return out.reshape(n, -1) + self.bias
