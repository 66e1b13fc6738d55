"""Behavior Sequence Transformer (Alibaba, 2019) for re-ranking."""
import math

import torch
from torch import nn


class BSTLayer(nn.Module):
    """Transformer layer over the behaviour sequence; the candidate is its last item.

    x     (B, T, D)   item embedding + time embedding, left-padded
    real  (B, T) bool, True = real item, False = padding.  The candidate at T-1 is
          always real.
    returns (B, T, D); only real items are attended to, whatever the query.  What
    stands at padded positions is not used further on.

    Scores are scaled by the square root of the width of one head.
    """

    def __init__(self, D, heads, p=0.1):
        super().__init__()
        self.heads = heads
        self.proj = nn.ModuleDict({n: nn.Linear(D, D) for n in ("q", "k", "v", "o")})
        self.norm1, self.norm2 = nn.LayerNorm(D), nn.LayerNorm(D)
        self.ff = nn.Sequential(nn.Linear(D, 4 * D), nn.LeakyReLU(), nn.Dropout(p), nn.Linear(4 * D, D))
        self.drop = nn.Dropout(p)

    def attend(self, x, real):
        B, T, D = x.shape
        q, k, v = (self.proj[n](x).view(B, T, self.heads, -1).permute(0, 2, 1, 3) for n in "qkv")
        scores = torch.matmul(q, k.permute(0, 1, 3, 2)) / math.sqrt(D)
        mask = real.unsqueeze(1).unsqueeze(3)
        scores = scores.masked_fill(mask == 0, -1e9)
        probs = self.drop(torch.softmax(scores, dim=-1))
        return self.proj["o"](torch.matmul(probs, v).permute(0, 2, 1, 3).reshape(B, T, D))

    def forward(self, x, real):
        x = self.norm1(x + self.drop(self.attend(x, real)))
        return self.norm2(x + self.drop(self.ff(x)))


class BST(nn.Module):
    """Click logit (B,) from the item ids (B, T) (0 = padding, candidate last)."""

    def __init__(self, n_items, T=20, D=32, heads=4):
        super().__init__()
        self.item = nn.Embedding(n_items, D, padding_idx=0)
        self.when = nn.Parameter(torch.randn(T, D) * 0.02)
        self.layer = BSTLayer(D, heads)
        self.head = nn.Sequential(nn.Linear(D, 64), nn.LeakyReLU(), nn.Linear(64, 1))

    def forward(self, ids):
        x = self.item(ids) + self.when[-ids.size(1):]
        return self.head(self.layer(x, ids != 0)[:, -1]).squeeze(-1)
