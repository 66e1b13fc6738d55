"""Solubility model: Graphormer layer over atoms.

collate(mols) takes a list of dicts {"atom": [n] int, "bonds": list of (i, j)} and
returns a dict of tensors
    atom  [B, N]      0 = padding atom
    deg   [B, N]      number of bonds (clipped to 7)
    spd   [B, N, N]   shortest path length, clipped to 8; 9 = not reachable
    real  [B, N]      True for atoms that exist

Graphormer(dim, heads) maps that dict to one number per molecule [B]:
score_h(i, j) = q_i.k_j / sqrt(dim/heads) + b_h[spd(i, j)], softmax over existing
atoms j, then mean over existing atoms.
"""
import torch
from torch import nn

FAR, MAXD = 9, 8


def shortest_paths(n, bonds):
    d = torch.full((n, n), FAR, dtype=torch.long)
    adj = {i: set() for i in range(n)}
    for i, j in bonds:
        adj[i].add(j)
        adj[j].add(i)
    for s in range(n):
        seen, front, step = {s}, [s], 0
        while front:
            for a in front:
                d[s, a] = min(step, MAXD)
            front = sorted({b for a in front for b in adj[a]} - seen)
            seen |= set(front)
            step += 1
    return d, torch.tensor([min(len(adj[i]), 7) for i in range(n)])


def collate(mols):
    N, B = max(len(m["atom"]) for m in mols), len(mols)
    atom, deg = torch.zeros(B, N, dtype=torch.long), torch.zeros(B, N, dtype=torch.long)
    spd = torch.full((B, N, N), FAR)
    for b, m in enumerate(mols):
        n = len(m["atom"])
        atom[b, :n] = torch.as_tensor(m["atom"])
        spd[b, :n, :n], deg[b, :n] = shortest_paths(n, m["bonds"])
    return dict(atom=atom, deg=deg, spd=spd, real=atom > 0)


class Graphormer(nn.Module):
    def __init__(self, dim=32, heads=4, n_atoms=100):
        super().__init__()
        self.heads = heads
        self.atom = nn.Embedding(n_atoms, dim, padding_idx=0)
        self.deg = nn.Embedding(8, dim)
        self.path = nn.Embedding(FAR + 1, heads)
        self.norm = nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)
        self.out = nn.Linear(dim, 1)

    def forward(self, g):
        x = self.atom(g["atom"]) + self.deg(g["deg"])
        B, N, D = x.shape
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2)
                   for t in self.qkv(self.norm(x)).chunk(3, dim=-1))
        bias = self.path(g["spd"]).permute(0, 3, 1, 2)
        bias = bias.masked_fill(~g["real"][:, None, None, :], float("-inf"))
        y = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=bias)
        x = x + self.proj(y.transpose(1, 2).reshape(B, N, D))
        w = g["real"].to(x.dtype)[..., None]
        return self.out((x * w).sum(1) / w.sum(1)).squeeze(-1)
