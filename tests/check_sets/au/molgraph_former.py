"""Graphormer-like property prediction for small molecules (dense, padded adjacency)."""
import torch
import torch.nn as nn
import torch.nn.functional as F


def hops(adj, limit):
    """bool [B, N, N] -> shortest path lengths 0..limit; limit also means unreachable."""
    B, N, _ = adj.shape
    d = torch.full((B, N, N), limit, dtype=torch.long, device=adj.device)
    reach = torch.eye(N, dtype=torch.bool, device=adj.device).expand(B, N, N).clone()
    d[reach] = 0
    for step in range(1, limit):
        nxt = (reach.float() @ adj.float()) > 0
        new = nxt & (d == limit)
        d[new] = step
        reach = reach | nxt
    return d


class AtomAttention(nn.Module):
    """Heads are stacked in front of the batch: [heads * B, N, d]."""

    def __init__(self, dim, heads, limit=6):
        super().__init__()
        self.heads, self.d = heads, dim // heads
        self.q, self.k, self.v = (nn.Linear(dim, dim) for _ in range(3))
        self.o = nn.Linear(dim, dim)
        self.path_bias = nn.Embedding(limit + 1, heads)

    def stack(self, x):
        return torch.cat(torch.chunk(x, self.heads, dim=2), dim=0)

    def forward(self, x, dist, is_atom):
        """x [B, N, dim], dist [B, N, N] hops, is_atom bool [B, N] (False = padding, not to be seen)."""
        B, N, _ = x.shape
        q, k, v = self.stack(self.q(x)), self.stack(self.k(x)), self.stack(self.v(x))
        logits = torch.bmm(q, k.transpose(1, 2)) / self.d ** 0.5
        bias = self.path_bias(dist).permute(3, 0, 1, 2).reshape(self.heads * B, N, N)
        logits = logits + bias
        blocked = ~is_atom
        blocked = blocked.unsqueeze(1).expand(B, N, N).repeat_interleave(self.heads, dim=0)
        logits = logits.masked_fill(blocked, -1e30)
        y = torch.bmm(F.softmax(logits, dim=2), v)
        y = torch.cat(torch.chunk(y, self.heads, dim=0), dim=2)
        return self.o(y)


class MolLayer(nn.Module):
    def __init__(self, dim, heads, limit):
        super().__init__()
        self.a = AtomAttention(dim, heads, limit)
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.f = nn.Sequential(nn.Linear(dim, dim), nn.GELU(), nn.Linear(dim, dim))

    def forward(self, x, dist, ok):
        x = x + self.a(self.n1(x), dist, ok)
        return x + self.f(self.n2(x))


class MolFormer(nn.Module):
    def __init__(self, atom_types=100, max_degree=8, dim=64, heads=4, depth=3, limit=6, tasks=1):
        super().__init__()
        self.limit = limit
        self.atom = nn.Embedding(atom_types, dim, padding_idx=0)
        self.degree = nn.Embedding(max_degree + 1, dim)
        self.layers = nn.ModuleList(MolLayer(dim, heads, limit) for _ in range(depth))
        self.head = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, tasks))

    def forward(self, z, adj):
        """z [B, N] atomic numbers, 0 = padding; adj bool [B, N, N]"""
        ok = z > 0
        deg = adj.sum(-1).clamp(max=self.degree.num_embeddings - 1)
        x = self.atom(z) + self.degree(deg)
        dist = hops(adj, self.limit)
        for l in self.layers:
            x = l(x, dist, ok)
        w = ok.unsqueeze(-1).float()
        return self.head((x * w).sum(1) / w.sum(1).clamp(min=1))
