"""AutoInt for click-through rates: feature fields interact by self-attention inside one sample."""
import torch
from torch import nn


class FieldEmbedding(nn.Module):
    """categorical fields share one big table with offsets; numeric fields scale a vector"""

    def __init__(self, cardinalities, n_numeric, dim):
        super().__init__()
        off = torch.tensor([0] + list(cardinalities[:-1])).cumsum(0)
        self.register_buffer("offsets", off)
        self.table = nn.Embedding(sum(cardinalities), dim)
        self.numeric = nn.Parameter(torch.randn(n_numeric, dim) * 0.05)

    def forward(self, cat, num):
        """cat [B, F1] long, num [B, F2] float -> [B, F1 + F2, dim]"""
        return torch.cat([self.table(cat + self.offsets), num.unsqueeze(-1) * self.numeric], 1)


class InteractingLayer(nn.Module):
    """x [batch, fields, dim] -> same; each field looks at the other fields of its own sample."""

    def __init__(self, dim, heads=2, dropout=0.0):
        super().__init__()
        self.mha = nn.MultiheadAttention(dim, heads, dropout=dropout)
        self.res = nn.Linear(dim, dim, bias=False)

    def forward(self, x):
        y, _ = self.mha(x, x, x, need_weights=False)
        return torch.relu(y + self.res(x))


class AutoInt(nn.Module):
    def __init__(self, cardinalities, n_numeric, dim=16, layers=3, heads=2, hidden=(64, 32), dropout=0.0):
        super().__init__()
        self.emb = FieldEmbedding(cardinalities, n_numeric, dim)
        fields = len(cardinalities) + n_numeric
        self.inter = nn.Sequential(*[InteractingLayer(dim, heads, dropout) for _ in range(layers)])
        self.linear = nn.Linear(fields * dim, 1)
        mlp, last = [], fields * dim
        for h in hidden:
            mlp += [nn.Linear(last, h), nn.BatchNorm1d(h), nn.ReLU(), nn.Dropout(dropout)]
            last = h
        self.mlp = nn.Sequential(*mlp, nn.Linear(last, 1))

    def forward(self, cat, num):
        x = self.emb(cat, num)
        a = self.linear(self.inter(x).flatten(1))
        return (a + self.mlp(x.flatten(1))).squeeze(1)


def log_loss(logit, click):
    return nn.functional.binary_cross_entropy_with_logits(logit, click.float())


def auc(score, label):
    """rank statistic, ties count as they come"""
    order = score.argsort()
    rank = torch.empty_like(order)
    rank[order] = torch.arange(1, len(order) + 1)
    pos = label.bool()
    n1, n0 = pos.sum(), (~pos).sum()
    return ((rank[pos].sum() - n1 * (n1 + 1) / 2) / (n1 * n0)).item()


def fit_epoch(model, loader, opt):
    model.train()
    total = n = 0
    for cat, num, y in loader:
        opt.zero_grad()
        loss = log_loss(model(cat, num), y)
        loss.backward()
        opt.step()
        total += loss.item() * len(y)
        n += len(y)
    return total / max(n, 1)
