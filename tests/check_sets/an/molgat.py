"""Graph attention v2 for small molecules, edge list form, with bond features."""
import torch
import torch.nn as nn


def segment_max(x, idx, n):
    out = x.new_full((n,) + x.shape[1:], float("-inf"))
    return out.scatter_reduce(0, idx[:, None].expand_as(x), x, "amax", include_self=True)


def segment_sum(x, idx, n):
    return x.new_zeros((n,) + x.shape[1:]).index_add_(0, idx, x)


class BondGAT(nn.Module):
    """Every atom attends to its incoming bonds.

    x (A, fin), edges (2, E) rows = source, destination, bond (E, fb)
    out (A, heads * fout); atoms without incoming bond get only the skip term.
    """

    def __init__(self, fin, fout, fb, heads=4, slope=0.2):
        super().__init__()
        self.heads, self.fout, self.slope = heads, fout, slope
        self.src = nn.Linear(fin, heads * fout, bias=False)
        self.dst = nn.Linear(fin, heads * fout, bias=False)
        self.bond = nn.Linear(fb, heads * fout, bias=False)
        self.a = nn.Parameter(torch.randn(heads, fout) * fout ** -0.5)
        self.skip = nn.Linear(fin, heads * fout)

    def forward(self, x, edges, bond):
        n = x.size(0)
        s, d = edges
        xs = self.src(x).view(n, self.heads, self.fout)[s]
        xd = self.dst(x).view(n, self.heads, self.fout)[d]
        e = self.bond(bond).view(-1, self.heads, self.fout)
        z = nn.functional.leaky_relu(xs + xd + e, self.slope)
        score = (z * self.a).sum(-1)                               # (E, heads)
        top = segment_max(score, d, n)
        w = torch.exp(score - top[d])
        w = w / segment_sum(w, d, n)[d]
        agg = segment_sum(w.unsqueeze(-1) * xs, d, n)
        return agg.reshape(n, -1) + self.skip(x)


class MoleculeNet(nn.Module):
    def __init__(self, fatom, fbond, hid=8, heads=4, depth=3):
        super().__init__()
        d = hid * heads
        self.emb = nn.Linear(fatom, d)
        self.conv = nn.ModuleList(BondGAT(d, hid, fbond, heads) for _ in range(depth))
        self.norm = nn.ModuleList(nn.LayerNorm(d) for _ in range(depth))
        self.head = nn.Sequential(nn.Linear(d, d), nn.SiLU(), nn.Linear(d, 1))

    def forward(self, data: dict):
        """data: atoms, edges, bonds, mol (molecule number of each atom)"""
        x = self.emb(data["atoms"])
        for c, n in zip(self.conv, self.norm):
            x = x + torch.relu(n(c(x, data["edges"], data["bonds"])))
        m = int(data["mol"].max()) + 1
        return self.head(segment_sum(x, data["mol"], m)).squeeze(-1)
