"""GCN encoder (Kipf & Welling) with a jumping-knowledge read-out for the thread classifier.

x (N, F), edge_index (2, E) with edge_index[0] -> edge_index[1], undirected graphs list both
directions, self loops are added here.  graph_of (N,) says which of the `n_graphs` graphs a node
is in.  Edge weights are the fixed degree normalisation 1 / sqrt(deg_i * deg_j).  Returns
log-probabilities (n_graphs, n_class).
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


def normalised_edges(edge_index, n):
    loop = torch.arange(n)
    src = torch.cat([edge_index[0], loop])
    dst = torch.cat([edge_index[1], loop])
    deg = torch.zeros(n).index_add(0, dst, torch.ones(len(dst)))
    weight = deg[src].rsqrt() * deg[dst].rsqrt()
    return src, dst, weight


class GraphConv(nn.Module):
    def __init__(self, f_in, f_out):
        super().__init__()
        self.lin = nn.Linear(f_in, f_out)

    def forward(self, x, src, dst, weight):
        h = self.lin(x)
        return torch.zeros_like(h).index_add(0, dst, weight[:, None] * h[src])


class ThreadGCN(nn.Module):
    def __init__(self, f_in, hidden, n_class, depth=3):
        super().__init__()
        sizes = [f_in] + [hidden] * depth
        self.convs = nn.ModuleList(GraphConv(a, b) for a, b in zip(sizes, sizes[1:]))
        self.head = nn.Linear(hidden * depth, n_class)

    def forward(self, x, edge_index, graph_of, n_graphs):
        edges = normalised_edges(edge_index, x.size(0))
        kept = []
        for conv in self.convs:
            x = F.relu(conv(x, *edges))
            kept.append(x)
        x = torch.cat(kept, dim=-1)
        size = torch.zeros(n_graphs).index_add(0, graph_of, torch.ones(len(graph_of)))
        pooled = torch.zeros(n_graphs, x.size(1)).index_add(0, graph_of, x) / size[:, None]
        return F.log_softmax(self.head(pooled), dim=-1)
