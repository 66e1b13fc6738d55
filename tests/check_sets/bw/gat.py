"""GAT ohne PyG: Graph Attention Networks (Velickovic et al., 2018).

Kanten als edge_index [2, E] (Quelle, Ziel). Die Normierung laeuft fuer jeden
Zielknoten ueber seine eingehenden Kanten; Selbstkanten werden ergaenzt.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


def segment_softmax(e, index, n):
    """Softmax von e [E, H] ueber alle Kanten mit gleichem index."""
    idx = index[:, None].expand_as(e)
    m = torch.full((n, e.shape[1]), float("-inf"), dtype=e.dtype, device=e.device)
    m = m.scatter_reduce(0, idx, e, reduce="amax")
    p = (e - m[index]).exp()
    z = torch.zeros_like(m).index_add(0, index, p)
    return p / z[index]


class GATConv(nn.Module):
    def __init__(self, c_in, c_out, heads=1, concat=True, slope=0.2, dropout=0.0):
        super().__init__()
        self.heads, self.c_out, self.concat = heads, c_out, concat
        self.slope, self.dropout = slope, dropout
        self.lin = nn.Linear(c_in, heads * c_out, bias=False)
        self.a_src = nn.Parameter(torch.empty(heads, c_out))
        self.a_dst = nn.Parameter(torch.empty(heads, c_out))
        self.bias = nn.Parameter(torch.zeros(heads * c_out if concat else c_out))
        nn.init.xavier_uniform_(self.lin.weight)
        nn.init.xavier_uniform_(self.a_src)
        nn.init.xavier_uniform_(self.a_dst)

    def forward(self, x, edge_index):
        n = x.shape[0]
        keep = edge_index[0] != edge_index[1]
        loops = torch.arange(n, device=x.device)
        src = torch.cat([edge_index[0, keep], loops])
        dst = torch.cat([edge_index[1, keep], loops])

        h = self.lin(x).view(n, self.heads, self.c_out)
        s = (h * self.a_src).sum(-1)
        t = (h * self.a_dst).sum(-1)
        e = F.leaky_relu(s[src] + t[dst], self.slope)
        alpha = segment_softmax(e, dst, n)
        alpha = F.dropout(alpha, self.dropout, self.training)

        msg = alpha[..., None] * h[src]
        out = torch.zeros_like(h).index_add(0, dst, msg)
        out = out.flatten(1) if self.concat else out.mean(1)
        return out + self.bias


class GAT(nn.Module):
    """Zwei Schichten wie im Cora-Experiment."""

    def __init__(self, c_in=16, hidden=8, heads=4, classes=7, dropout=0.6):
        super().__init__()
        self.dropout = dropout
        self.c1 = GATConv(c_in, hidden, heads, dropout=dropout)
        self.c2 = GATConv(hidden * heads, classes, 1, concat=False, dropout=dropout)

    def forward(self, x, edge_index):
        x = F.dropout(x, self.dropout, self.training)
        x = F.elu(self.c1(x, edge_index))
        x = F.dropout(x, self.dropout, self.training)
        return self.c2(x, edge_index)
