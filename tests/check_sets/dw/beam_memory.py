"""Decoder self-attention with a beam-aware cache.

All tensors have the beams folded into the batch: row = sentence * beams + beam.

    layer.start(rows)                      forget everything
    y = layer.next(x)                      x (rows, dim) -> y (rows, dim)
    layer.reorder(parent)                  parent (rows,) int64: the row that each beam continues

After `reorder`, row r has the history of row parent[r] (both keys and values).  Each
call to `next` appends the new token and attends over the whole history, the new token included.
Dot products are scaled by 1/sqrt(dim/heads).
"""
import torch
from torch import nn


class BeamSelfAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.inp = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)
        self.past = None

    def start(self, rows):
        self.past = self.inp.weight.new_zeros(2, rows, self.heads, 0,
                                              self.inp.in_features // self.heads)

    def reorder(self, parent):
        self.past = self.past.index_select(1, parent)

    def next(self, x):
        rows, dim = x.shape
        q, k, v = self.inp(x).view(rows, 3, self.heads, 1, -1).unbind(1)
        self.past = torch.cat([self.past, torch.stack([k, v])], dim=3)
        keys, vals = self.past
        y = nn.functional.scaled_dot_product_attention(q, keys, vals)
        return self.out(y.reshape(rows, dim))
