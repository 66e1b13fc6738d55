"""
mol_gat -- graph attention over bonds, no PyG needed.

A molecule batch is one big disconnected graph: `atoms` [n_atoms, f] and
`bonds` [2, n_bonds] with bonds[0] = sender, bonds[1] = receiver. Each atom
normalises over its *incoming* bonds. Self loops are added here.
"""
import torch
from torch import nn
from torch.nn import functional as F

ELEMENTS = ["H", "C", "N", "O", "F", "P", "S", "Cl", "Br", "I"]


def with_self_loops(bonds, n):
    loop = torch.arange(n, device=bonds.device)
    return torch.cat([bonds, torch.stack([loop, loop])], dim=1)


def segment_softmax(e, seg, n):
    """Softmax of e [E, H] within groups seg [E], stable."""
    idx = seg[:, None].expand_as(e)
    peak = e.new_full((n, e.size(1)), float("-inf"))
    peak = peak.scatter_reduce(0, idx, e.detach(), reduce="amax", include_self=True)
    w = (e - peak[seg]).exp()
    total = e.new_zeros(n, e.size(1)).index_add(0, seg, w)
    return w / total[seg]


class BondAttention(nn.Module):
    """GAT layer (Velickovic et al. 2018): e_ij = LeakyReLU(a_s . W h_j + a_t . W h_i)."""

    def __init__(self, f_in, f_out, heads=4, concat=True, slope=0.2):
        super().__init__()
        self.heads, self.f_out, self.concat, self.slope = heads, f_out, concat, slope
        self.W = nn.Linear(f_in, heads * f_out, bias=False)
        self.a_send = nn.Parameter(torch.empty(heads, f_out))
        self.a_recv = nn.Parameter(torch.empty(heads, f_out))
        self.bias = nn.Parameter(torch.zeros(heads * f_out if concat else f_out))
        for p in (self.a_send, self.a_recv):
            nn.init.xavier_uniform_(p)

    def forward(self, atoms, bonds):
        n = atoms.size(0)
        src, dst = with_self_loops(bonds, n)
        h = self.W(atoms).view(n, self.heads, self.f_out)
        score = (h * self.a_send).sum(-1)[src] + (h * self.a_recv).sum(-1)[dst]
        alpha = segment_softmax(F.leaky_relu(score, self.slope), dst, n)
        out = h.new_zeros(n, self.heads, self.f_out)
        out = out.index_add(0, dst, alpha[..., None] * h[src])
        out = out.flatten(1) if self.concat else out.mean(1)
        return out + self.bias


class SolubilityNet(nn.Module):
    def __init__(self, hidden=16, heads=4):
        super().__init__()
        self.emb = nn.Embedding(len(ELEMENTS), hidden)
        self.l1 = BondAttention(hidden, hidden, heads)
        self.l2 = BondAttention(hidden * heads, hidden, heads, concat=False)
        self.out = nn.Linear(hidden, 1)

    def forward(self, z, bonds, mol_id):
        x = F.elu(self.l1(self.emb(z), bonds))
        x = self.l2(x, bonds)
        n_mol = int(mol_id.max()) + 1
        pooled = x.new_zeros(n_mol, x.size(1)).index_add(0, mol_id, x)
        return self.out(pooled).squeeze(-1)


if __name__ == "__main__":
    z = torch.tensor([1, 1, 3])                                   # C-C-O
    b = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    print(SolubilityNet()(z, b, torch.zeros(3, dtype=torch.long)))
