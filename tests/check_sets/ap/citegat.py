# citegat - graph attention on citation networks without a scatter library
# edge_index: LongTensor [2, E]; row 0 = source j, row 1 = target i (message j -> i)
import torch
import torch.nn.functional as F
from torch.nn import Parameter


def add_loops(edge_index, n):
    keep = edge_index[0] != edge_index[1]
    loops = torch.arange(n, device=edge_index.device)
    return torch.cat([edge_index[:, keep], torch.stack([loops, loops])], dim=1)


def edge_softmax(e, dst, n):
    """softmax of e [E, H] over all edges with the same target node."""
    idx = dst.unsqueeze(-1).expand_as(e)
    top = e.new_full((n, e.size(1)), float("-inf"))
    top = top.scatter_reduce(0, idx, e.detach(), reduce="amax", include_self=True)
    ex = torch.exp(e - top[dst])
    den = torch.zeros_like(top).scatter_add(0, idx, ex)
    return ex / den[dst]


class CiteGATConv(torch.nn.Module):
    """One layer of graph attention (Velickovic et al.), additive form."""

    def __init__(self, in_dim, out_dim, heads=1, concat=True, slope=0.2, p=0.0, self_loops=True):
        super().__init__()
        self.h, self.d = heads, out_dim
        self.concat, self.slope, self.p, self.self_loops = concat, slope, p, self_loops
        self.W = torch.nn.Linear(in_dim, heads * out_dim, bias=False)
        self.a_src = Parameter(torch.empty(1, heads, out_dim))
        self.a_dst = Parameter(torch.empty(1, heads, out_dim))
        self.b = Parameter(torch.zeros(heads * out_dim if concat else out_dim))
        for w in (self.W.weight, self.a_src, self.a_dst):
            torch.nn.init.xavier_uniform_(w)

    def forward(self, x, edge_index, return_alpha=False):
        n = x.size(0)
        if self.self_loops:
            edge_index = add_loops(edge_index, n)
        src, dst = edge_index
        x = F.dropout(x, self.p, self.training)
        z = self.W(x).view(n, self.h, self.d)
        s = (z * self.a_src).sum(-1)
        t = (z * self.a_dst).sum(-1)
        e = F.leaky_relu(s[src] + t[dst], self.slope)
        alpha = edge_softmax(e, dst, n)
        msg = z[src] * F.dropout(alpha, self.p, self.training).unsqueeze(-1)
        out = torch.zeros_like(z).index_add(0, dst, msg)
        out = out.flatten(1) if self.concat else out.mean(1)
        out = out + self.b
        if return_alpha:
            return out, (edge_index, alpha)
        return out


class Net(torch.nn.Module):
    def __init__(self, feats, classes, hidden=8, heads=8, p=0.6):
        super().__init__()
        self.c1 = CiteGATConv(feats, hidden, heads, p=p)
        self.c2 = CiteGATConv(hidden * heads, classes, 1, concat=False, p=p)

    def forward(self, data):
        x, ei = data["x"], data["edge_index"]
        return F.log_softmax(self.c2(F.elu(self.c1(x, ei)), ei), dim=-1)


def accuracy(logits, y, mask):
    hit = logits.argmax(-1)[mask] == y[mask]
    return hit.float().mean().item()
