"""GATv2-style message passing on molecular graphs given as edge lists."""
import torch
import torch.nn as nn
import torch.nn.functional as F


def group_softmax(score, index, n):
    """Softmax of score (E, H) among edges that share the same index (E,)."""
    top = score.new_full((n, score.size(1)), float("-inf"))
    idx = index[:, None].expand_as(score)
    top = top.scatter_reduce(0, idx, score, reduce="amax", include_self=True)
    e = torch.exp(score - top.gather(0, idx))
    z = torch.zeros(n, score.size(1), dtype=e.dtype, device=e.device).index_add(0, index, e)
    return e / z[index]


class BondAttention(nn.Module):
    """
    atoms : (N, in_dim)
    edges : (2, E) long; edges[0] = sender j, edges[1] = receiver i
    bonds : (E, bond_dim) features of the bond

    Each receiver takes a weighted mean over the senders pointing at it; weights
    sum to one per receiver and head. Atoms with no incoming edge get only the
    root term. Returns (N, heads * width) and the weights (E, heads).
    """

    def __init__(self, in_dim=16, width=8, heads=2, bond_dim=4, slope=0.2):
        super().__init__()
        self.h, self.w, self.slope = heads, width, slope
        self.send = nn.Linear(in_dim, heads * width)
        self.recv = nn.Linear(in_dim, heads * width)
        self.bond = nn.Linear(bond_dim, heads * width, bias=False)
        self.a = nn.Parameter(torch.randn(heads, width) * width ** -0.5)
        self.root = nn.Linear(in_dim, heads * width)

    def forward(self, atoms, edges, bonds):
        n = atoms.size(0)
        j, i = edges
        s = self.send(atoms).view(n, self.h, self.w)
        r = self.recv(atoms).view(n, self.h, self.w)
        b = self.bond(bonds).view(-1, self.h, self.w)
        # the nonlinearity sits before the dot with a, so ranking depends on i
        mix = F.leaky_relu(s[j] + r[i] + b, self.slope)
        score = (mix * self.a).sum(-1)
        alpha = group_softmax(score, i, n)
        out = atoms.new_zeros(n, self.h, self.w)
        out = out.index_add(0, i, alpha.unsqueeze(-1) * s[j])
        return out.flatten(1) + self.root(atoms), alpha
