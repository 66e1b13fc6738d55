"""Decoder step for beam search on CPU; heads are folded into the batch for torch.bmm.

Rows are beams: N = sentences * beam.  After folding, row n * H + h is head h of beam n.
"""
import torch
import torch.nn as nn


class FoldedCross(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads, self.d = heads, dim // heads
        self.q = nn.Linear(dim, dim)
        self.k = nn.Linear(dim, dim)
        self.v = nn.Linear(dim, dim)
        self.o = nn.Linear(dim, dim)

    def fold(self, x):
        """(N, L, dim) -> (N*H, L, d)"""
        n, l, _ = x.shape
        return x.view(n, l, self.heads, self.d).transpose(1, 2).reshape(n * self.heads, l, self.d)

    def unfold(self, x):
        """(N*H, L, d) -> (N, L, dim)"""
        nh, l, d = x.shape
        return x.view(nh // self.heads, self.heads, l, d).transpose(1, 2).reshape(-1, l, self.heads * d)

    def prepare(self, src, src_mask):
        """src (N, S, dim), one row per beam; src_mask (N, S) bool, True = a real word,
        False = padding that must get no weight.  Called once per batch of sentences."""
        banned = (~src_mask).unsqueeze(1).repeat(self.heads, 1, 1)
        return self.fold(self.k(src)), self.fold(self.v(src)), banned

    def forward(self, y, prepared):
        """y (N, T, dim): the states of the newest T target words of every beam.
        Returns (N, T, dim): for every beam its own sentence, padding left out, scale
        1/sqrt(d)."""
        k, v, banned = prepared
        q = self.fold(self.q(y)) * self.d ** -0.5
        e = torch.bmm(q, k.transpose(1, 2))
        e = e.masked_fill(banned, torch.finfo(e.dtype).min)
        return self.o(self.unfold(torch.bmm(torch.softmax(e, dim=-1), v)))
