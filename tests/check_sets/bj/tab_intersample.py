"""SAINT-like tabular transformer: attention over columns, then over ROWS.

`RowAttention` is the intersample attention of the paper: every sample of the
batch looks at all other samples of the batch (each sample is one token made
of all of its columns).  That outputs depend on the batch is the point.
"""
import torch
import torch.nn as nn


class ColumnEmbedding(nn.Module):
    def __init__(self, cardinalities, n_num, dim):
        super().__init__()
        self.cat = nn.ModuleList(nn.Embedding(c, dim) for c in cardinalities)
        self.num_w = nn.Parameter(torch.randn(n_num, dim) * 0.1)
        self.num_b = nn.Parameter(torch.zeros(n_num, dim))
        self.cls = nn.Parameter(torch.randn(1, 1, dim) * 0.1)

    def forward(self, x_cat, x_num):
        parts = [e(x_cat[:, i]) for i, e in enumerate(self.cat)]
        cats = torch.stack(parts, 1)
        nums = x_num[..., None] * self.num_w + self.num_b
        return torch.cat([self.cls.expand(len(x_num), -1, -1), cats, nums], 1)


class RowAttention(nn.Module):
    """x [B, n_cols, dim] -> same shape; attention runs over B.

    With `set_context` a fixed set of training rows is used as keys and
    values at prediction time instead of the batch itself.
    """

    def __init__(self, n_cols, dim, heads=4):
        super().__init__()
        width = n_cols * dim
        self.core = nn.MultiheadAttention(width, heads, batch_first=True)
        self.norm = nn.LayerNorm(width)
        self._rows = None

    def set_context(self, rows):
        self._rows = None if rows is None else self.norm(rows.flatten(1))[None]

    def forward(self, x):
        b, n, d = x.shape
        tokens = self.norm(x.reshape(1, b, n * d))
        mem = tokens if self._rows is None else self._rows
        y, _ = self.core(tokens, mem, mem, need_weights=False)
        return x + y.reshape(b, n, d)


class ColumnAttention(nn.Module):
    def __init__(self, dim, heads=4):
        super().__init__()
        self.core = nn.MultiheadAttention(dim, heads, batch_first=True)
        self.norm = nn.LayerNorm(dim)

    def forward(self, x):
        h = self.norm(x)
        return x + self.core(h, h, h, need_weights=False)[0]


class TabNetwork(nn.Module):
    def __init__(self, cardinalities=(4, 7), n_num=3, dim=8, depth=2, out=1):
        super().__init__()
        n_cols = len(cardinalities) + n_num + 1
        self.emb = ColumnEmbedding(cardinalities, n_num, dim)
        self.blocks = nn.ModuleList(
            nn.ModuleList([ColumnAttention(dim), RowAttention(n_cols, dim)]) for _ in range(depth)
        )
        self.head = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, out))

    @torch.no_grad()
    def remember(self, x_cat, x_num):
        """Store the training rows in every RowAttention (prediction mode)."""
        for _, row in self.blocks:
            row.set_context(None)
        h = self.emb(x_cat, x_num)
        for col, row in self.blocks:
            h = col(h)
            nxt = row(h)
            row.set_context(h)
            h = nxt

    def forward(self, x_cat, x_num):
        h = self.emb(x_cat, x_num)
        for col, row in self.blocks:
            h = row(col(h))
        return self.head(h[:, 0])
