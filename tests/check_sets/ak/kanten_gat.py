"""Graph attention over edge lists, no compiled extensions needed.

edge_index is [2, E]: row 0 holds the sender of an edge, row 1 its receiver. A receiver takes a
convex combination of what its senders say.
"""
import torch
from torch import nn
import torch.nn.functional as F


def segment_sum(x, idx, n):
    out = x.new_zeros((n,) + x.shape[1:])
    return out.index_add(0, idx, x)


def segment_max(x, idx, n):
    full = idx.view(-1, *([1] * (x.dim() - 1))).expand_as(x)
    out = x.new_full((n,) + x.shape[1:], float("-inf"))
    return out.scatter_reduce(0, full, x, reduce="amax", include_self=True)


def segment_softmax(score, idx, n):
    shift = segment_max(score.detach(), idx, n)
    e = (score - shift[idx]).exp()
    return e / segment_sum(e, idx, n)[idx].clamp(min=1e-30)


def with_self_loops(edge_index, edge_attr, n):
    loop = torch.arange(n, device=edge_index.device)
    edge_index = torch.cat([edge_index, torch.stack([loop, loop])], dim=1)
    if edge_attr is not None:
        edge_attr = torch.cat([edge_attr, edge_attr.new_zeros(n, edge_attr.size(1))])
    return edge_index, edge_attr


class KantenGAT(nn.Module):
    def __init__(self, in_dim, out_dim, heads=4, edge_dim=None, concat=True, slope=0.2,
                 dropout=0.0):
        super().__init__()
        self.h, self.d, self.concat, self.slope = heads, out_dim, concat, slope
        self.p = dropout
        self.lin = nn.Linear(in_dim, heads * out_dim, bias=False)
        self.a_send = nn.Parameter(torch.empty(heads, out_dim))
        self.a_recv = nn.Parameter(torch.empty(heads, out_dim))
        self.lin_edge = nn.Linear(edge_dim, heads, bias=False) if edge_dim else None
        self.bias = nn.Parameter(torch.zeros(heads * out_dim if concat else out_dim))
        nn.init.xavier_normal_(self.a_send)
        nn.init.xavier_normal_(self.a_recv)

    def forward(self, x, edge_index, edge_attr=None, return_alpha=False):
        n = x.size(0)
        edge_index, edge_attr = with_self_loops(edge_index, edge_attr, n)
        send, recv = edge_index
        z = self.lin(x).view(n, self.h, self.d)
        # a^T [Wh_i || Wh_j] falls apart into one number for each end
        logit = (z * self.a_send).sum(-1)[send] + (z * self.a_recv).sum(-1)[recv]
        if self.lin_edge is not None and edge_attr is not None:
            logit = logit + self.lin_edge(edge_attr)
        alpha = segment_softmax(F.leaky_relu(logit, self.slope), recv, n)
        drop = F.dropout(alpha, self.p, self.training)
        out = segment_sum(drop.unsqueeze(-1) * z[send], recv, n)
        out = out.flatten(1) if self.concat else out.mean(1)
        out = out + self.bias
        return (out, alpha) if return_alpha else out


class GraphReadout(nn.Module):
    """Softmax-gated pooling of the nodes of each graph of a batch (`batch` [N] -> graph id)."""

    def __init__(self, dim):
        super().__init__()
        self.gate = nn.Linear(dim, 1)

    def forward(self, x, batch, n_graphs):
        w = segment_softmax(self.gate(x), batch, n_graphs)
        return segment_sum(w * x, batch, n_graphs)


class MoleculeNet(nn.Module):
    def __init__(self, atom_dim, bond_dim, hid=16, heads=4, classes=1):
        super().__init__()
        self.c1 = KantenGAT(atom_dim, hid, heads, bond_dim)
        self.c2 = KantenGAT(hid * heads, hid, heads, bond_dim, concat=False)
        self.pool = GraphReadout(hid)
        self.head = nn.Linear(hid, classes)

    def forward(self, x, edge_index, edge_attr, batch, n_graphs):
        x = F.elu(self.c1(x, edge_index, edge_attr))
        x = F.elu(self.c2(x, edge_index, edge_attr))
        return self.head(self.pool(x, batch, n_graphs))


if __name__ == "__main__":
    net = MoleculeNet(5, 3)
    ei = torch.randint(0, 6, (2, 14))
    print(net(torch.randn(6, 5), ei, torch.randn(14, 3), torch.tensor([0, 0, 0, 1, 1, 1]), 2))
