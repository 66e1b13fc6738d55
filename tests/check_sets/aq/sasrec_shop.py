"""SASRec for the web shop: next-item model over the click history. Histories are padded on the LEFT with item 0."""
import torch
from torch import nn


class HistoryAttention(nn.Module):
    """Causal self attention over the clicks; pad [B, L] is True at the padding in front."""

    def __init__(self, dim, heads, dropout):
        super().__init__()
        self.heads = heads
        self.q = nn.Linear(dim, dim)
        self.k = nn.Linear(dim, dim)
        self.v = nn.Linear(dim, dim)
        self.drop = nn.Dropout(dropout)

    def forward(self, x, pad):
        B, L, D = x.shape
        def cut(t):
            return t.view(B, L, self.heads, D // self.heads).permute(0, 2, 1, 3)
        q, k, v = cut(self.q(x)), cut(self.k(x)), cut(self.v(x))
        logits = torch.matmul(q, k.transpose(2, 3)) * (D // self.heads) ** -0.5
        future = torch.triu(torch.ones(L, L, dtype=torch.bool, device=x.device), diagonal=1)
        hide = future[None, None] | pad[:, None, None, :]
        logits = logits.masked_fill(hide, float("-inf"))
        att = self.drop(torch.softmax(logits, dim=-1))
        return torch.matmul(att, v).permute(0, 2, 1, 3).reshape(B, L, D)


class SASRec(nn.Module):
    def __init__(self, n_items, dim=48, heads=2, layers=1, max_len=50, dropout=0.2):
        super().__init__()
        self.item = nn.Embedding(n_items + 1, dim, padding_idx=0)
        self.place = nn.Embedding(max_len, dim)
        self.n1 = nn.ModuleList(nn.LayerNorm(dim) for _ in range(layers))
        self.att = nn.ModuleList(HistoryAttention(dim, heads, dropout) for _ in range(layers))
        self.n2 = nn.ModuleList(nn.LayerNorm(dim) for _ in range(layers))
        self.ff = nn.ModuleList(
            nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Dropout(dropout), nn.Linear(dim, dim))
            for _ in range(layers))
        self.drop = nn.Dropout(dropout)

    def forward(self, hist):
        pad = hist == 0
        x = self.item(hist) * self.item.embedding_dim ** 0.5
        x = self.drop(x + self.place.weight[-hist.shape[1]:])
        for n1, a, n2, f in zip(self.n1, self.att, self.n2, self.ff):
            x = x + a(n1(x), pad)
            x = x + f(n2(x))
        return x

    def recommend(self, hist, k=10):
        score = self.forward(hist)[:, -1] @ self.item.weight.t()
        score[:, 0] = -float("inf")
        return score.topk(k).indices


def bpr_loss(pos, neg, pad):
    l = -nn.functional.logsigmoid(pos - neg)
    return l.masked_fill(pad, 0).sum() / (~pad).sum().clamp_min(1)
