import torch
import torch.nn as nn


class AtomAttention(nn.Module):
    """Message passing between bonded atoms with attention.

    x     : (batch, atoms, dim) float
    bonds : (batch, atoms, atoms) long, 0 = no bond, 1..4 = single/double/triple/aromatic;
            symmetric, zero diagonal, padded atoms have no bonds.
    Every atom reads its bonded neighbours and itself. The logit is q.k / sqrt(dim per head) plus a
    learned number per head and bond type (type 0 is used for the atom itself).
    Returns (batch, atoms, dim).
    """

    def __init__(self, dim=32, heads=4, n_types=5):
        super().__init__()
        self.heads = heads
        self.q = nn.Linear(dim, dim)
        self.kv = nn.Linear(dim, 2 * dim)
        self.bond_bias = nn.Embedding(n_types, heads)
        self.o = nn.Linear(dim, dim)
        self.norm = nn.LayerNorm(dim)

    def forward(self, x, bonds):
        b, n, dim = x.shape
        h = self.norm(x)
        q = self.q(h).view(b, n, self.heads, -1)
        k, v = self.kv(h).view(b, n, 2, self.heads, -1).unbind(2)

        logits = torch.einsum("bihd,bjhd->bijh", q, k) / (dim / self.heads) ** 0.5
        logits = logits + self.bond_bias(bonds)

        linked = (bonds > 0) | torch.eye(n, dtype=torch.bool, device=x.device)
        logits = logits.masked_fill(~linked[..., None], -torch.inf)
        alpha = logits.softmax(dim=2)                    # over j, the atoms that are read

        msg = torch.einsum("bijh,bjhd->bihd", alpha, v).reshape(b, n, dim)
        return x + self.o(msg)


class MolNet(nn.Module):
    """atoms (batch, n) long (0 = padding) and bonds -> one property per molecule, (batch,)."""

    def __init__(self, n_elements=20, dim=32, layers=3):
        super().__init__()
        self.emb = nn.Embedding(n_elements, dim, padding_idx=0)
        self.layers = nn.ModuleList(AtomAttention(dim) for _ in range(layers))
        self.read = nn.Linear(dim, 1)

    def forward(self, atoms, bonds):
        x = self.emb(atoms)
        for layer in self.layers:
            x = layer(x, bonds)
        real = (atoms != 0).unsqueeze(-1)
        return self.read((x * real).sum(1) / real.sum(1)).squeeze(-1)
