"""Ads ranking: deep & cross network (DCN-V2, low rank), the baseline to beat.

CrossRanker(fields, vocab, dim, n_dense, rank, layers).forward(ids, dense) -> (B,) logits
    ids    (B, fields) int     categorical features, one vocabulary for all
    dense  (B, n_dense) float  numeric features, n_dense given at construction
Cross layer:  x_{l+1} = x_0 * (U_l V_l x_l + b_l) + x_l  (elementwise product), in parallel
with a small MLP; a linear layer on both gives the logit.
"""
import torch
import torch.nn as nn


class CrossLayer(nn.Module):
    def __init__(self, width, rank):
        super().__init__()
        self.v = nn.Linear(width, rank, bias=False)
        self.u = nn.Linear(rank, width)

    def forward(self, x0, x):
        return x0 * self.u(self.v(x)) + x


class CrossRanker(nn.Module):
    def __init__(self, fields, vocab, dim, n_dense, rank=8, layers=3):
        super().__init__()
        width = fields * dim + n_dense
        self.emb = nn.Embedding(vocab, dim)
        self.cross = nn.ModuleList(CrossLayer(width, rank) for _ in range(layers))
        self.deep = nn.Sequential(nn.Linear(width, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU())
        self.head = nn.Linear(width + 32, 1)

    def forward(self, ids, dense):
        x0 = torch.cat([self.emb(ids).flatten(1), dense], dim=1)
        x = x0
        for layer in self.cross:
            x = layer(x0, x)
        return self.head(torch.cat([x, self.deep(x0)], dim=1)).squeeze(1)
