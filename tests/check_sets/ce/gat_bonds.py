"""Graph attention over molecules with bond features (GAT, Velickovic et al. 2018).

A batch of molecules is one big graph: x [n_atoms, f], edge_index [2, n_edges]
with rows (source, destination), bond [n_edges, f_bond]. An atom attends to the
atoms that have a bond into it and to itself (self loops get the mean bond
feature of the atom, zero if it has no bond):

    e_ij    = LeakyReLU(a_dst . W x_i + a_src . W x_j + a_bond . W_e b_ij)
    alpha_i = softmax over the neighbours j of i, for every head
    out_i   = || over heads  sum_j alpha_ij W x_j
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


def softmax_by_group(logits, group, n):
    """Softmax of logits [E, H] among the edges with the same `group` id."""
    idx = group[:, None].expand_as(logits)
    top = logits.new_full((n, logits.size(1)), float("-inf"))
    top = top.scatter_reduce(0, idx, logits, reduce="amax")
    e = (logits - top.detach()[group]).exp()
    total = e.new_zeros(n, e.size(1)).scatter_add(0, idx, e)
    return e / total[group]


class BondGATLayer(nn.Module):
    def __init__(self, f_in, f_out, f_bond, heads=4, slope=0.2):
        super().__init__()
        self.h, self.f = heads, f_out
        self.slope = slope
        self.lin = nn.Linear(f_in, heads * f_out, bias=False)
        self.lin_bond = nn.Linear(f_bond, heads * f_out, bias=False)
        self.a_src = nn.Parameter(torch.empty(heads, f_out))
        self.a_dst = nn.Parameter(torch.empty(heads, f_out))
        self.a_bond = nn.Parameter(torch.empty(heads, f_out))
        self.bias = nn.Parameter(torch.zeros(heads * f_out))
        for p in (self.a_src, self.a_dst, self.a_bond):
            nn.init.xavier_uniform_(p)

    @staticmethod
    def add_loops(edge_index, bond, n):
        dst = edge_index[1]
        count = bond.new_zeros(n).index_add(0, dst, bond.new_ones(len(dst)))
        mean = bond.new_zeros(n, bond.size(1)).index_add(0, dst, bond)
        mean = mean / count.clamp(min=1)[:, None]
        loop = torch.arange(n, device=dst.device)
        return torch.cat([edge_index, torch.stack([loop, loop])], 1), torch.cat([bond, mean])

    def forward(self, x, edge_index, bond, return_weights=False):
        n = x.size(0)
        edge_index, bond = self.add_loops(edge_index, bond, n)
        src, dst = edge_index
        z = self.lin(x).view(n, self.h, self.f)
        zb = self.lin_bond(bond).view(-1, self.h, self.f)
        logit = (z * self.a_src).sum(-1)[src] + (z * self.a_dst).sum(-1)[dst]
        logit = F.leaky_relu(logit + (zb * self.a_bond).sum(-1), self.slope)
        alpha = softmax_by_group(logit, dst, n)                      # [E, H]
        msg = alpha[..., None] * z[src]
        out = x.new_zeros(n, self.h, self.f).index_add(0, dst, msg)
        out = out.reshape(n, self.h * self.f) + self.bias
        return (out, (edge_index, alpha)) if return_weights else out


class MoleculeNet(nn.Module):
    """Two layers and a mean over the atoms of each molecule -> one property."""

    def __init__(self, f_atom=9, f_bond=3, width=8, heads=4):
        super().__init__()
        self.l1 = BondGATLayer(f_atom, width, f_bond, heads)
        self.l2 = BondGATLayer(width * heads, width, f_bond, heads)
        self.out = nn.Linear(width * heads, 1)

    def forward(self, x, edge_index, bond, molecule, n_mol):
        x = F.elu(self.l1(x, edge_index, bond))
        x = F.elu(self.l2(x, edge_index, bond))
        size = x.new_zeros(n_mol).index_add(0, molecule, x.new_ones(len(x)))
        pooled = x.new_zeros(n_mol, x.size(1)).index_add(0, molecule, x) / size[:, None]
        return self.out(pooled).squeeze(-1)
