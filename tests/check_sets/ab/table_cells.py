"""Encoder for spreadsheets: a token per cell, row/column embeddings, multi-head attention."""
import math
import torch
import torch.nn as nn


class CellEmbedding(nn.Module):
    def __init__(self, vocab, dim, max_rows=64, max_cols=32):
        super().__init__()
        self.text = nn.Embedding(vocab, dim, padding_idx=0)
        self.row = nn.Embedding(max_rows, dim)
        self.col = nn.Embedding(max_cols, dim)

    def forward(self, ids, rows, cols):
        return self.text(ids) + self.row(rows) + self.col(cols)


class Head(nn.Module):
    def __init__(self, dim, d_head):
        super().__init__()
        self.q = nn.Linear(dim, d_head)
        self.k = nn.Linear(dim, d_head)
        self.v = nn.Linear(dim, d_head)
        self.inv = 1.0 / math.sqrt(d_head)

    def forward(self, x, padding=None):
        logits = torch.bmm(self.q(x), self.k(x).transpose(1, 2)) * self.inv
        if padding is not None:
            # hide the padding cells from everybody
            logits = logits + padding.unsqueeze(1).to(logits.dtype)
        return torch.bmm(logits.softmax(-1), self.v(x))


class CellAttention(nn.Module):
    """All cells of a table attend to each other.

    Args:
        x: (tables, cells, dim)
        padding: (tables, cells) bool, True at the cells which were added to
            make the tables of a batch the same size
    """

    def __init__(self, dim=64, heads=4):
        super().__init__()
        self.heads = [Head(dim, dim // heads) for _ in range(heads)]
        self.merge = nn.Linear(dim, dim)
        self.norm = nn.LayerNorm(dim)

    def forward(self, x, padding=None):
        y = torch.cat([head(x, padding) for head in self.heads], dim=-1)
        return self.norm(x + self.merge(y))


class TableEncoder(nn.Module):
    def __init__(self, vocab=1000, dim=64, heads=4, depth=2):
        super().__init__()
        self.emb = CellEmbedding(vocab, dim)
        self.attn = nn.ModuleList([CellAttention(dim, heads) for _ in range(depth)])
        self.ff = nn.ModuleList([nn.Sequential(nn.Linear(dim, 2 * dim), nn.ReLU(), nn.Linear(2 * dim, dim))
                                 for _ in range(depth)])

    def forward(self, ids, rows, cols):
        x = self.emb(ids, rows, cols)
        for a, f in zip(self.attn, self.ff):
            x = a(x, ids == 0)
            x = x + f(x)
        return x
