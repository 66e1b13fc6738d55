"""Message passing on molecules: attention along bonds.

A batch of molecules is one big graph.  ``edge_index`` is [2, E] with
``edge_index[0]`` = source atom (gives the message), ``edge_index[1]`` = target atom.
Each bond stands twice, once in each direction.  There are no padded atoms.
"""
import torch
from torch import nn


def segment_softmax(score, seg, n):
    """softmax of ``score`` [E, H] within the groups given by ``seg`` [E]"""
    idx = seg[:, None].expand_as(score)
    top = score.new_full((n, score.size(1)), float("-inf")).scatter_reduce(0, idx, score, reduce="amax")
    num = (score - top.gather(0, idx)).exp()
    den = score.new_zeros(n, score.size(1)).scatter_add(0, idx, num)
    return num / den.gather(0, idx)


class BondAttention(nn.Module):
    """x_i <- sum_j alpha_ij (V x_j + R e_ij),  alpha_ij = softmax_j (Q x_i . (K x_j + E e_ij) / sqrt(d))

    The softmax runs over the bonds that arrive at atom i.  A lone atom (ion,
    noble gas) has none and receives only its own skip connection.
    """

    def __init__(self, atom_dim, bond_dim, heads=4, head_dim=16):
        super().__init__()
        self.heads, self.head_dim = heads, head_dim
        inner = heads * head_dim
        self.q = nn.Linear(atom_dim, inner)
        self.k = nn.Linear(atom_dim, inner)
        self.v = nn.Linear(atom_dim, inner)
        self.bond_k = nn.Linear(bond_dim, inner, bias=False)
        self.bond_v = nn.Linear(bond_dim, inner, bias=False)
        self.skip = nn.Linear(atom_dim, inner)
        self.gate = nn.Linear(3 * inner, inner, bias=False)

    def forward(self, x, edge_index, bond, return_alpha=False):
        n, shape = x.size(0), (-1, self.heads, self.head_dim)
        src, dst = edge_index
        q = self.q(x).view(shape)[dst]
        k = self.k(x).view(shape)[src] + self.bond_k(bond).view(shape)
        v = self.v(x).view(shape)[src] + self.bond_v(bond).view(shape)

        alpha = segment_softmax((q * k).sum(-1) / self.head_dim ** 0.5, dst, n)
        msg = (alpha.unsqueeze(-1) * v).flatten(1)
        out = msg.new_zeros(n, msg.size(1)).index_add(0, dst, msg)

        r = self.skip(x)
        beta = torch.sigmoid(self.gate(torch.cat([out, r, out - r], dim=-1)))
        y = beta * r + (1 - beta) * out
        return (y, alpha) if return_alpha else y


class MolNet(nn.Module):
    """ADMET regression head on top of a few rounds of bond attention."""

    ELEMENTS = ["H", "B", "C", "N", "O", "F", "Si", "P", "S", "Cl", "Br", "I"]
    BONDS = ["single", "double", "triple", "aromatic"]

    def __init__(self, rounds=3, heads=4, head_dim=16, targets=1):
        super().__init__()
        width = heads * head_dim
        self.atom = nn.Embedding(len(self.ELEMENTS) + 1, width)
        self.bond = nn.Embedding(len(self.BONDS), 16)
        self.layers = nn.ModuleList(BondAttention(width, 16, heads, head_dim) for _ in range(rounds))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(rounds))
        self.read = nn.Sequential(nn.Linear(width, width), nn.SiLU(), nn.Linear(width, targets))

    @classmethod
    def element_id(cls, symbol: str) -> int:
        return cls.ELEMENTS.index(symbol) + 1 if symbol in cls.ELEMENTS else 0

    def forward(self, atoms, edge_index, bonds, mol_of_atom, n_mol):
        h, e = self.atom(atoms), self.bond(bonds)
        for layer, norm in zip(self.layers, self.norms):
            h = norm(h + torch.relu(layer(h, edge_index, e)))
        pooled = h.new_zeros(n_mol, h.size(1)).index_add(0, mol_of_atom, h)
        count = torch.bincount(mol_of_atom, minlength=n_mol).clamp(min=1).to(h.dtype)
        return self.read(pooled / count[:, None])
