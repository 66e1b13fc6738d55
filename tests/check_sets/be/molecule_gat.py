"""Graph attention for molecules (no PyG dependency).

edge_index: LongTensor [2, E], row 0 = source atom j, row 1 = target atom i.
Messages flow source -> target and the coefficients of all edges that enter one
target sum to 1.  Self loops are added here; do not add them in the dataset.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F

BOND_TYPES = 4


def segment_softmax(e, idx, n):
    # e: [E, H]
    m = torch.full((n, e.size(1)), float("-inf"), dtype=e.dtype, device=e.device)
    m = m.scatter_reduce(0, idx[:, None].expand_as(e), e, reduce="amax", include_self=True)
    p = torch.exp(e - m[idx])
    z = torch.zeros(n, e.size(1), dtype=e.dtype, device=e.device).index_add(0, idx, p)
    return p / z[idx]


class BondGAT(nn.Module):
    """GATv2 scores: a^T leaky_relu(W_l x_i + W_r x_j + bond)."""

    def __init__(self, d_in, d_out, heads=3, concat=True, slope=0.2):
        super().__init__()
        self.h, self.d, self.concat, self.slope = heads, d_out, concat, slope
        self.lin_l = nn.Linear(d_in, heads * d_out)
        self.lin_r = nn.Linear(d_in, heads * d_out)
        self.bond = nn.Embedding(BOND_TYPES + 1, heads * d_out)  # last = self loop
        self.att = nn.Parameter(torch.empty(heads, d_out))
        nn.init.xavier_uniform_(self.att)

    def forward(self, x, edge_index, bond_type):
        n = x.size(0)
        loop = torch.arange(n, device=x.device)
        src = torch.cat([edge_index[0], loop])
        dst = torch.cat([edge_index[1], loop])
        bt = torch.cat([bond_type, torch.full_like(loop, BOND_TYPES)])

        xl = self.lin_l(x).view(n, self.h, self.d)
        xr = self.lin_r(x).view(n, self.h, self.d)
        msg = xr[src]
        z = xl[dst] + msg + self.bond(bt).view(-1, self.h, self.d)
        e = (F.leaky_relu(z, self.slope) * self.att).sum(-1)
        alpha = segment_softmax(e, dst, n)

        out = torch.zeros(n, self.h, self.d, dtype=msg.dtype, device=x.device)
        out = out.index_add(0, dst, alpha.unsqueeze(-1) * msg)
        return out.flatten(1) if self.concat else out.mean(1)


class SolubilityNet(nn.Module):
    def __init__(self, atom_feats=9, width=16, heads=3):
        super().__init__()
        self.g1 = BondGAT(atom_feats, width, heads)
        self.g2 = BondGAT(width * heads, width, heads, concat=False)
        self.head = nn.Linear(width, 1)

    def forward(self, x, edge_index, bond_type, mol_id, n_mols):
        x = F.elu(self.g1(x, edge_index, bond_type))
        x = F.elu(self.g2(x, edge_index, bond_type))
        pooled = torch.zeros(n_mols, x.size(1), dtype=x.dtype).index_add(0, mol_id, x)
        return self.head(pooled).squeeze(-1)
