"""Graphormer encoder for molecule property regression (Ying et al. 2021), reduced.

Kept from the paper: centrality encoding (a degree embedding added to the atoms),
spatial encoding (a learned scalar per head for the shortest-path distance, added
to the logits) and the virtual node [V] that is connected to everything through a
bias of its own. Left out: edge encoding along paths.

Inputs of one batch (N = the largest molecule)
    atom   long [B, N]      0 is padding
    degree long [B, N]
    spd    long [B, N, N]   shortest path, clipped to max_dist; unreachable = max_dist
"""
import torch
from torch import nn


class GraphLayer(nn.Module):
    def __init__(self, dim, heads, p):
        super().__init__()
        self.heads, self.d = heads, dim // heads
        self.ln1, self.ln2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.in_proj = nn.Linear(dim, 3 * dim)
        self.out_proj = nn.Linear(dim, dim)
        self.ffn = nn.Sequential(nn.Linear(dim, dim), nn.GELU(), nn.Linear(dim, dim))
        self.drop = nn.Dropout(p)

    def forward(self, x, bias):
        B, N, _ = x.shape
        qkv = self.in_proj(self.ln1(x)).view(B, N, 3, self.heads, self.d)
        q, k, v = qkv.unbind(dim=2)
        s = torch.einsum("bihd,bjhd->bhij", q, k) / self.d ** 0.5
        w = self.drop((s + bias).softmax(-1))
        y = torch.einsum("bhij,bjhd->bihd", w, v)
        x = x + self.drop(self.out_proj(y.reshape(B, N, -1)))
        return x + self.drop(self.ffn(self.ln2(x)))


class GraphormerLite(nn.Module):
    def __init__(self, n_atom_types=20, max_degree=8, max_dist=6, dim=32, heads=4, depth=2, p=0.1):
        super().__init__()
        self.atom_emb = nn.Embedding(n_atom_types, dim, padding_idx=0)
        self.degree_emb = nn.Embedding(max_degree + 1, dim)
        self.spd_bias = nn.Embedding(max_dist + 1, heads)
        self.virtual = nn.Parameter(torch.randn(1, 1, dim) * 0.02)
        self.virtual_bias = nn.Parameter(torch.zeros(heads))
        self.layers = nn.ModuleList([GraphLayer(dim, heads, p) for _ in range(depth)])
        self.ln = nn.LayerNorm(dim)
        self.out = nn.Linear(dim, 1)

    def attention_bias(self, atom, spd):
        B, N = atom.shape
        heads = self.virtual_bias.numel()
        bias = self.virtual_bias.view(1, -1, 1, 1).repeat(B, 1, N + 1, N + 1)
        inner = self.spd_bias(spd).permute(0, 3, 1, 2)           # [B, H, N, N]
        bias = torch.cat([bias[:, :, :1], torch.cat([bias[:, :, 1:, :1], inner], 3)], 2)
        pad = torch.cat([atom.new_zeros(B, 1, dtype=torch.bool), atom == 0], dim=1)
        pad = pad[:, None, None, :].expand(-1, heads, N + 1, -1)
        return bias.masked_fill(pad, float("-inf"))

    def forward(self, atom, degree, spd):
        x = self.atom_emb(atom) + self.degree_emb(degree)
        x = torch.cat([self.virtual.expand(len(x), -1, -1), x], dim=1)
        bias = self.attention_bias(atom, spd)
        for layer in self.layers:
            x = layer(x, bias)
        return self.out(self.ln(x[:, 0])).squeeze(-1)
