"""Fraud scoring on the payment graph. No PyG here: the serving image only has torch."""
import torch
from torch import nn
import torch.nn.functional as F


def scatter_softmax(logits, index, n):
    """Softmax of logits [E, H] inside the groups index [E] (n groups)."""
    idx = index[:, None].expand_as(logits)
    top = torch.full((n, logits.size(1)), float("-inf"), dtype=logits.dtype, device=logits.device)
    top = top.scatter_reduce(0, idx, logits, reduce="amax", include_self=True)
    e = torch.exp(logits - top.gather(0, idx).detach())
    total = torch.zeros(n, logits.size(1), dtype=logits.dtype, device=logits.device).index_add(0, index, e)
    return e / total.gather(0, idx)


class EdgeGAT(nn.Module):
    """GATv2-style layer with edge features.

    edge_index [2, E]: row 0 is the paying account (source), row 1 the paid
    account (target). Messages go source -> target and the weights of all
    edges INTO one target sum to one.
    """

    def __init__(self, d_in, d_out, heads=4, d_edge=0, drop=0.0, slope=0.2, concat=True):
        super().__init__()
        self.h, self.c, self.concat, self.slope = heads, d_out, concat, slope
        self.lin_src = nn.Linear(d_in, heads * d_out)
        self.lin_dst = nn.Linear(d_in, heads * d_out)
        self.lin_edge = nn.Linear(d_edge, heads * d_out, bias=False) if d_edge else None
        self.att = nn.Parameter(torch.empty(heads, d_out))
        self.bias = nn.Parameter(torch.zeros(heads * d_out if concat else d_out))
        self.drop = nn.Dropout(drop)
        nn.init.xavier_uniform_(self.att)

    def forward(self, x, edge_index, edge_attr=None, return_alpha=False):
        n = x.size(0)
        src, dst = edge_index[0], edge_index[1]
        xs = self.lin_src(x).view(n, self.h, self.c)
        xd = self.lin_dst(x).view(n, self.h, self.c)
        z = xs[src] + xd[dst]
        if self.lin_edge is not None and edge_attr is not None:
            z = z + self.lin_edge(edge_attr).view(-1, self.h, self.c)
        logits = (F.leaky_relu(z, self.slope) * self.att).sum(-1)
        alpha = scatter_softmax(logits, dst, n)
        msg = xs[src] * self.drop(alpha).unsqueeze(-1)
        out = torch.zeros(n, self.h, self.c, dtype=x.dtype, device=x.device).index_add(0, dst, msg)
        out = out.flatten(1) if self.concat else out.mean(1)
        out = out + self.bias
        return (out, alpha) if return_alpha else out


def with_self_loops(edge_index, edge_attr, n):
    loop = torch.arange(n, device=edge_index.device).expand(2, n)
    edge_index = torch.cat([edge_index, loop], dim=1)
    if edge_attr is not None:
        edge_attr = torch.cat([edge_attr, edge_attr.new_zeros(n, edge_attr.size(1))])
    return edge_index, edge_attr


class FraudNet(nn.Module):
    def __init__(self, d_node, d_edge, hidden=16, heads=4):
        super().__init__()
        self.a = EdgeGAT(d_node, hidden, heads, d_edge, drop=0.1)
        self.b = EdgeGAT(hidden * heads, hidden, heads, d_edge, drop=0.1, concat=False)
        self.score = nn.Linear(hidden, 1)

    def forward(self, x, edge_index, edge_attr=None):
        edge_index, edge_attr = with_self_loops(edge_index, edge_attr, x.size(0))
        x = F.elu(self.a(x, edge_index, edge_attr))
        x = F.elu(self.b(x, edge_index, edge_attr))
        return self.score(x).squeeze(-1)
