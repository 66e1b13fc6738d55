"""Graph transformer layer on dense batches of molecules (QM9).

An atom attends to itself and to the atoms it is bonded to; the bond type gives
one additive bias per head, and the summed message is gated by the atom's state.
`adj[b, i, j]` is True where i and j are bonded.
"""
import torch
import torch.nn as nn


class BondBias(nn.Module):
    def __init__(self, n_bond_types, heads):
        super().__init__()
        self.table = nn.Embedding(n_bond_types, heads)

    def forward(self, bonds):                  # (B, N, N) long
        return self.table(bonds).permute(0, 3, 1, 2)


class GraphTransformerLayer(nn.Module):
    def __init__(self, dim=32, heads=4, n_bond_types=5, dropout=0.0):
        super().__init__()
        assert dim % heads == 0
        self.heads = heads
        self.dh = dim // heads
        self.norm = nn.LayerNorm(dim)
        self.wq = nn.Linear(dim, dim)
        self.wk = nn.Linear(dim, dim)
        self.wv = nn.Linear(dim, dim)
        self.wo = nn.Linear(dim, dim)
        self.bias = BondBias(n_bond_types, heads)
        self.gate = nn.Linear(dim, dim)
        self.ffn = nn.Sequential(
            nn.LayerNorm(dim), nn.Linear(dim, 2 * dim), nn.SiLU(), nn.Linear(2 * dim, dim))
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, bonds, adj):
        B, N, D = x.shape
        h = self.norm(x)

        def split(t):
            return t.view(B, N, self.heads, self.dh).transpose(1, 2)

        q, k, v = split(self.wq(h)), split(self.wk(h)), split(self.wv(h))
        scores = torch.einsum("bhnd,bhmd->bhnm", q, k) / self.dh ** 0.5
        scores = scores + self.bias(bonds)

        eye = torch.eye(N, dtype=torch.bool, device=x.device)
        neighbours = (adj | eye).unsqueeze(1)
        scores.masked_fill(~neighbours, float("-inf"))

        alpha = self.dropout(scores.softmax(-1))
        msg = torch.einsum("bhnm,bhmd->bhnd", alpha, v)
        msg = msg.transpose(1, 2).reshape(B, N, D)
        x = x + torch.sigmoid(self.gate(h)) * self.wo(msg)
        return x + self.ffn(x)


class QM9Regressor(nn.Module):
    def __init__(self, n_atoms=10, dim=32, layers=3, heads=4, n_targets=1):
        super().__init__()
        self.atom = nn.Embedding(n_atoms, dim, padding_idx=0)
        self.layers = nn.ModuleList(GraphTransformerLayer(dim, heads) for _ in range(layers))
        self.readout = nn.Linear(dim, n_targets)

    def forward(self, z, bonds):
        # bond type 0 = no bond, atom 0 = padding
        x = self.atom(z)
        adj = bonds > 0
        for layer in self.layers:
            x = layer(x, bonds, adj)
        real = (z > 0).unsqueeze(-1)
        return self.readout((x * real).sum(1))


if __name__ == "__main__":
    z = torch.tensor([[6, 1, 1, 8, 0]])
    bonds = torch.zeros(1, 5, 5, dtype=torch.long)
    for i, j, t in ((0, 1, 1), (0, 2, 1), (0, 3, 2)):
        bonds[0, i, j] = bonds[0, j, i] = t
    print(QM9Regressor()(z, bonds))
