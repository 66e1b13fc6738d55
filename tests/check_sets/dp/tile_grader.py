"""Grades a histology slide from its tiles: ViT over tiles, mean, logits.

Tile embeddings come from a frozen CNN, in scanning order.  Position table as in
"Attention is all you need":
    PE[p, 2i]   = sin(p / 10000^(2i / dim))
    PE[p, 2i+1] = cos(p / 10000^(2i / dim)),   i = 0 .. dim/2 - 1

``TileGrader(d_in, dim, heads, grades, max_tiles)``
    tiles : (B, N, d_in) float
    empty : (B, N) bool, True = white tile (glass), never read and not averaged;
            each slide has at least one tile with tissue
returns logits (B, grades).  Heads are the consecutive dim/heads channels, their
outputs are concatenated per tile; logits of the heads / sqrt(dim/heads).
"""
import numpy as np
import torch
import torch.nn as nn


def position_table(n, dim):
    pe = np.zeros((n, dim), dtype=np.float32)
    for p in range(n):
        for i in range(0, dim, 2):
            pe[p, i] = np.sin(p / (10000 ** ((2 * i) / dim)))
            pe[p, i + 1] = np.cos(p / (10000 ** ((2 * i) / dim)))
    return torch.from_numpy(pe)


class TileGrader(nn.Module):
    def __init__(self, d_in, dim, heads, grades, max_tiles=400):
        super().__init__()
        self.heads = heads
        self.inp = nn.Linear(d_in, dim)
        self.register_buffer("pe", position_table(max_tiles, dim))
        self.ln1, self.ln2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.q, self.k = nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.v, self.o = nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))
        self.head = nn.Linear(dim, grades)

    def forward(self, tiles, empty):
        B, N, _ = tiles.shape
        x = self.inp(tiles) + self.pe[:N]
        y = self.ln1(x)
        q, k, v = (f(y).view(B, N, self.heads, -1).transpose(1, 2)
                   for f in (self.q, self.k, self.v))
        e = (q @ k.transpose(2, 3)) / (q.size(-1) ** 0.5)
        e = e.masked_fill(empty.view(B, 1, 1, N), -1e9)
        y = e.softmax(dim=-1) @ v
        x = x + self.o(y.reshape(B, N, -1))
        x = x + self.mlp(self.ln2(x))
        w = (~empty).float().unsqueeze(-1)
        return self.head((x * w).sum(1) / w.sum(1))
