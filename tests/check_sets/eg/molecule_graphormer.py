"""Graphormer style attention between the atoms of a molecule, solubility data."""
import torch
import torch.nn as nn


class GraphormerAttention(nn.Module):
    """
    x    (B, N, dim)  atom features
    dist (B, N, N)    shortest path lengths, ints in 0..max_dist
    pad  (B, N)       bool, True = no atom in this slot (each molecule has an atom)

    A_ij = q_i . k_j / sqrt(d_head) + b[dist_ij], one learnt number b per head and path length;
    output_i = sum_j softmax_j(A_ij) v_j, padding excluded. Returns (B, N, dim).
    """

    def __init__(self, dim=32, heads=4, max_dist=8):
        super().__init__()
        self.heads = heads
        self.scale = (dim // heads) ** -0.5
        self.qkv = nn.Linear(dim, 3 * dim)
        self.spatial = nn.Embedding(max_dist + 1, heads)
        self.out = nn.Linear(dim, dim)

    def forward(self, x, dist, pad):
        B, N, D = x.shape
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        q = q.reshape(B, N, self.heads, -1).transpose(1, 2)
        k = k.reshape(B, N, self.heads, -1).transpose(1, 2)
        v = v.reshape(B, N, self.heads, -1).transpose(1, 2)
        a = (q @ k.transpose(-2, -1)) * self.scale
        bias = self.spatial(dist).permute(0, 3, 1, 2)
        a = a.masked_fill(pad[:, None, None, :], float("-inf"))
        a = torch.softmax(a, dim=-1)
        a = a + bias.masked_fill(pad[:, None, None, :], 0.0)
        y = (a @ v).transpose(1, 2).reshape(B, N, D)
        return self.out(y)


class Solubility(nn.Module):
    """atoms (B, N) element numbers (0 = no atom), dist as above -> (B,) log solubility"""

    def __init__(self, elements=20, dim=32, layers=2):
        super().__init__()
        self.embed = nn.Embedding(elements, dim, padding_idx=0)
        self.att = nn.ModuleList([GraphormerAttention(dim) for _ in range(layers)])
        self.norm = nn.ModuleList([nn.LayerNorm(dim) for _ in range(layers)])
        self.head = nn.Linear(dim, 1)

    def forward(self, atoms, dist):
        pad = atoms == 0
        x = self.embed(atoms)
        for att, norm in zip(self.att, self.norm):
            x = x + att(norm(x), dist, pad)
        return self.head(x.masked_fill(pad.unsqueeze(-1), 0.0).sum(1)).squeeze(-1)
