"""Graph attention layer on an edge list, used for the citation-recommendation baseline.

No PyG dependency on purpose, the cluster image doesn't have it.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


def add_self_loops(edge_index, num_nodes):
    loops = torch.arange(num_nodes, device=edge_index.device)
    return torch.cat([edge_index, torch.stack([loops, loops])], dim=1)


class EdgeGAT(nn.Module):
    """GAT (Velickovic et al. 2018), multi-head, heads concatenated.

    x:          (N, in_dim)
    edge_index: (2, E), row 0 = cited paper (source), row 1 = citing paper (target).

    Every target node averages its sources; the weights over the incoming
    edges of one target sum to one for each head. Self loops are added here.
    """

    def __init__(self, in_dim=16, out_dim=8, heads=3, slope=0.2):
        super().__init__()
        self.heads = heads
        self.out_dim = out_dim
        self.slope = slope
        self.lin = nn.Linear(in_dim, heads * out_dim, bias=False)
        self.att_src = nn.Parameter(torch.empty(heads, out_dim))
        self.att_dst = nn.Parameter(torch.empty(heads, out_dim))
        self.bias = nn.Parameter(torch.zeros(heads * out_dim))
        nn.init.xavier_uniform_(self.lin.weight)
        nn.init.xavier_uniform_(self.att_src)
        nn.init.xavier_uniform_(self.att_dst)

    def edge_softmax(self, logits, dst, num_nodes):
        # logits (E, heads); normalise within the edges that share a target
        idx = dst[:, None].expand_as(logits)
        top = logits.new_full((num_nodes, self.heads), float("-inf"))
        top = top.scatter_reduce(0, idx, logits, reduce="amax")
        e = torch.exp(logits - top[dst].detach())
        denom = logits.new_zeros(num_nodes, self.heads).index_add(0, dst, e)
        return e / denom[dst]

    def forward(self, x, edge_index):
        n = x.size(0)
        src, dst = add_self_loops(edge_index, n)
        h = self.lin(x).view(n, self.heads, self.out_dim)
        a_src = (h * self.att_src).sum(-1)
        a_dst = (h * self.att_dst).sum(-1)
        logits = F.leaky_relu(a_src[src] + a_dst[dst], self.slope)
        alpha = self.edge_softmax(logits, dst, n)
        msg = h[src] * alpha.unsqueeze(-1)
        out = h.new_zeros(n, self.heads, self.out_dim).index_add(0, dst, msg)
        return out.flatten(1) + self.bias
