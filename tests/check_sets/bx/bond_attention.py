"""Message passing over bonds with attention (solubility model).

A batch of molecules is one big graph: `bonds` is (2, E) with row 0 the source
atom and row 1 the receiving atom.  An atom averages the messages that arrive at
it with weights softmax-normalised over its incoming bonds, separately in each
head.  The bond's own features enter both the key and the message.  An atom
without bonds receives zeros.
"""
import torch
import torch.nn as nn


def softmax_by_target(logit, target, n):
    # logit: E x H, target: E; normalise among the rows with the same target
    index = target.unsqueeze(-1).expand_as(logit)
    top = logit.new_full((n, logit.shape[1]), -torch.inf)
    top = top.scatter_reduce(0, index, logit, reduce="amax")
    e = torch.exp(logit - top[target])
    total = logit.new_zeros(n, logit.shape[1]).index_add(0, target, e)
    return e / total[target]


class BondAttention(nn.Module):
    def __init__(self, atom_dim=16, bond_dim=5, heads=4):
        super().__init__()
        self.heads, self.d = heads, atom_dim // heads
        self.q = nn.Linear(atom_dim, atom_dim)
        self.k = nn.Linear(atom_dim, atom_dim)
        self.v = nn.Linear(atom_dim, atom_dim)
        self.bond_k = nn.Linear(bond_dim, atom_dim, bias=False)
        self.bond_v = nn.Linear(bond_dim, atom_dim, bias=False)
        self.update = nn.GRUCell(atom_dim, atom_dim)

    def messages(self, atoms, bonds, bond_feats):
        src, dst = bonds
        n = atoms.shape[0]
        split = lambda t: t.view(-1, self.heads, self.d)
        q = split(self.q(atoms))[dst]
        k = split(self.k(atoms)[src] + self.bond_k(bond_feats))
        v = split(self.v(atoms)[src] + self.bond_v(bond_feats))
        logit = (q * k).sum(-1) / self.d ** 0.5
        w = softmax_by_target(logit, dst, n)
        out = atoms.new_zeros(n, self.heads, self.d)
        return out.index_add(0, dst, w.unsqueeze(-1) * v).flatten(1)

    def forward(self, atoms, bonds, bond_feats):
        return self.update(self.messages(atoms, bonds, bond_feats), atoms)


if __name__ == "__main__":
    layer = BondAttention()
    ring = torch.tensor([[0, 1, 2, 1, 2, 0], [1, 2, 0, 0, 1, 2]])
    print(layer(torch.randn(3, 16), ring, torch.randn(6, 5)).shape)
