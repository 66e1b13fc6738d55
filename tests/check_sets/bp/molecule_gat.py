# GATv2 for small molecules without torch_geometric (edge lists, no padding).
import torch
import torch.nn as nn
import torch.nn.functional as F

ATOM_FEATS = 39
BOND_FEATS = 10


def edge_softmax(e, dst, num_nodes):
    """Normalise the logits e [E, H] over all edges which end in the same node."""
    idx = dst.unsqueeze(-1).expand_as(e)
    top = e.new_full((num_nodes, e.size(1)), float("-inf"))
    top = top.scatter_reduce(0, idx, e.detach(), reduce="amax", include_self=True)
    w = (e - top.gather(0, idx)).exp()
    z = e.new_zeros(num_nodes, e.size(1)).scatter_add(0, idx, w)
    return w / z.gather(0, idx)


class BondGAT(nn.Module):
    """One GATv2 layer with bond features.

    x          [N, in_dim]       atoms of the whole batch, stacked
    edge_index [2, E]            row 0 = source, row 1 = target
    edge_attr  [E, bond_dim]

    logit(i <- j) = a_h . LeakyReLU(W_s x_j + W_t x_i + W_e e_ij), softmax over j in N(i).
    Atoms without incoming bonds receive the bias only.
    """

    def __init__(self, in_dim=ATOM_FEATS, out_dim=16, heads=4, bond_dim=BOND_FEATS, slope=0.2):
        super().__init__()
        self.heads, self.out_dim, self.slope = heads, out_dim, slope
        self.lin_src = nn.Linear(in_dim, heads * out_dim)
        self.lin_dst = nn.Linear(in_dim, heads * out_dim)
        self.lin_bond = nn.Linear(bond_dim, heads * out_dim, bias=False)
        self.att = nn.Parameter(torch.empty(1, heads, out_dim))
        self.bias = nn.Parameter(torch.zeros(heads * out_dim))
        nn.init.xavier_uniform_(self.att)

    def forward(self, x, edge_index, edge_attr):
        n = x.size(0)
        src, dst = edge_index
        hs = self.lin_src(x).view(n, self.heads, self.out_dim)
        ht = self.lin_dst(x).view(n, self.heads, self.out_dim)
        he = self.lin_bond(edge_attr).view(-1, self.heads, self.out_dim)
        z = F.leaky_relu(hs[src] + ht[dst] + he, self.slope)
        e = (z * self.att).sum(-1)                       # [E, H]
        alpha = edge_softmax(e, dst, n)
        msg = hs[src] * alpha.unsqueeze(-1)
        out = x.new_zeros(n, self.heads, self.out_dim)
        out = out.index_add(0, dst, msg)
        return out.flatten(1) + self.bias


class SolubilityNet(nn.Module):
    def __init__(self, hidden=16, heads=4, layers=2):
        super().__init__()
        dims = [ATOM_FEATS] + [hidden * heads] * layers
        self.layers = nn.ModuleList(BondGAT(d, hidden, heads) for d in dims[:-1])
        self.head = nn.Linear(hidden * heads, 1)

    def forward(self, x, edge_index, edge_attr, batch):
        for layer in self.layers:
            x = F.elu(layer(x, edge_index, edge_attr))
        g = int(batch.max()) + 1
        pooled = x.new_zeros(g, x.size(1)).index_add(0, batch, x)
        return self.head(pooled).squeeze(-1)
