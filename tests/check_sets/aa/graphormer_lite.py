"""Graphormer, slimmed down: molecules as dense graphs with structural bias."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class StructuralBias(nn.Module):
    """One learned scalar per head for every shortest-path distance."""

    def __init__(self, heads, max_dist=8):
        super().__init__()
        self.max_dist = max_dist
        self.table = nn.Embedding(max_dist + 2, heads)   # the last row: unreachable

    def forward(self, spd):
        """spd [B, N, N] integer distances, negative when unreachable."""
        idx = spd.clamp(max=self.max_dist)
        idx = torch.where(spd < 0, torch.full_like(idx, self.max_dist + 1), idx)
        return self.table(idx).permute(0, 3, 1, 2).contiguous()


class BiasedAttention(nn.Module):
    def __init__(self, dim, heads, dropout=0.0):
        super().__init__()
        self.heads, self.hd = heads, dim // heads
        self.q, self.k, self.v = (nn.Linear(dim, dim) for _ in range(3))
        self.o = nn.Linear(dim, dim)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, bias, node_mask):
        B, N, D = x.shape
        shape = (B, N, self.heads, self.hd)
        q = self.q(x).view(shape).transpose(1, 2) * self.hd ** -0.5
        k = self.k(x).view(shape).transpose(1, 2)
        v = self.v(x).view(shape).transpose(1, 2)
        # saves one N x N allocation per layer
        bias += q @ k.transpose(-2, -1)
        scores = bias.masked_fill(~node_mask[:, None, None, :], -1e9)
        attn = self.dropout(F.softmax(scores, dim=-1))
        return self.o((attn @ v).transpose(1, 2).reshape(B, N, D))


class GraphormerLayer(nn.Module):
    def __init__(self, dim, heads, ffn):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attn = BiasedAttention(dim, heads)
        self.ffn = nn.Sequential(nn.Linear(dim, ffn), nn.GELU(), nn.Linear(ffn, dim))

    def forward(self, x, bias, node_mask):
        x = x + self.attn(self.norm1(x), bias, node_mask)
        return x + self.ffn(self.norm2(x))


class GraphormerEncoder(nn.Module):
    def __init__(self, n_atoms=20, dim=24, heads=4, layers=3, ffn=32, max_degree=8):
        super().__init__()
        self.atom = nn.Embedding(n_atoms, dim)
        self.degree = nn.Embedding(max_degree + 1, dim)
        self.bias = StructuralBias(heads)
        self.layers = nn.ModuleList(GraphormerLayer(dim, heads, ffn) for _ in range(layers))
        self.norm = nn.LayerNorm(dim)

    def forward(self, atoms, spd, node_mask=None):
        """atoms [B, N] ids, spd [B, N, N] distances, node_mask [B, N] True for real atoms."""
        if node_mask is None:
            node_mask = torch.ones_like(atoms, dtype=torch.bool)
        deg = (spd == 1).sum(-1).clamp(max=self.degree.num_embeddings - 1)
        x = self.atom(atoms) + self.degree(deg)
        bias = self.bias(spd)
        for layer in self.layers:
            x = layer(x, bias, node_mask)
        return self.norm(x)
