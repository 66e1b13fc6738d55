"""GAT on an edge list, without torch_geometric."""
import torch
import torch.nn as nn
import torch.nn.functional as F


def add_self_loops(edge_index, n):
    loop = torch.arange(n, device=edge_index.device)
    return torch.cat([edge_index, torch.stack([loop, loop])], dim=1)


def edge_softmax(logit, target, n):
    """logit [E, H]; one softmax for every target node and head"""
    idx = target[:, None].expand_as(logit)
    top = logit.new_full((n, logit.shape[1]), float("-inf"))
    top = top.scatter_reduce(0, idx, logit.detach(), reduce="amax")
    e = torch.exp(logit - top[target])
    den = torch.zeros_like(top).scatter_add(0, idx, e)
    return e / den[target]


class GATConv(nn.Module):
    """alpha_ij = softmax_j LeakyReLU(a_dst . W h_i + a_src . W h_j) over the in-edges j -> i.

    edge_index [2, E]: first row source, second row target. Self loops are added here.
    """

    def __init__(self, n_in, n_out, heads=4, slope=0.2, concat=True, dropout=0.0):
        super().__init__()
        self.heads, self.n_out, self.slope, self.concat = heads, n_out, slope, concat
        self.dropout = dropout
        self.lin = nn.Linear(n_in, heads * n_out, bias=False)
        self.a_src = nn.Parameter(torch.empty(heads, n_out))
        self.a_dst = nn.Parameter(torch.empty(heads, n_out))
        self.bias = nn.Parameter(torch.zeros(heads * n_out if concat else n_out))
        for p in (self.lin.weight, self.a_src, self.a_dst):
            nn.init.xavier_uniform_(p)

    def forward(self, x, edge_index):
        n = x.shape[0]
        src, dst = add_self_loops(edge_index, n)
        h = self.lin(x).view(n, self.heads, self.n_out)
        s_src = (h * self.a_src).sum(-1)
        s_dst = (h * self.a_dst).sum(-1)
        alpha = edge_softmax(F.leaky_relu(s_src[src] + s_dst[dst], self.slope), dst, n)
        alpha = F.dropout(alpha, self.dropout, self.training)
        out = torch.zeros_like(h).index_add(0, dst, h[src] * alpha[..., None])
        out = out.flatten(1) if self.concat else out.mean(1)
        return out + self.bias


class FraudNet(nn.Module):
    def __init__(self, n_in, hidden=16, classes=2):
        super().__init__()
        self.c1 = GATConv(n_in, hidden, heads=4, dropout=0.2)
        self.c2 = GATConv(4 * hidden, classes, heads=1, concat=False)

    def forward(self, x, ei):
        return self.c2(F.elu(self.c1(x, ei)), ei)
