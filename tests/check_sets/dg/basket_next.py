# Instacart: which item comes next in the basket (encoder over the basket so far)
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class BasketModel(nn.Module):
    def __init__(self, n_items=150, dim=32, heads=2, p=0.2):
        super().__init__()
        self.heads, self.p = heads, p
        self.items = nn.Embedding(n_items + 1, dim, padding_idx=0)
        self.wq, self.wk, self.wv = (nn.Linear(dim, dim, bias=False) for _ in range(3))
        self.wo = nn.Linear(dim, dim)
        self.ln = nn.LayerNorm(dim)

    def split(self, t):
        return t.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def encode(self, basket):
        """basket (B, L) item ids, 0 fills up short baskets; the empty places are not read"""
        x = self.items(basket)
        empty = basket.eq(0)[:, None, None, :]
        q, k, v = self.split(self.wq(x)), self.split(self.wk(x)), self.split(self.wv(x))
        s = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
        a = F.softmax(s + empty, dim=-1)
        a = F.dropout(a, self.p)
        y = (a @ v).transpose(1, 2).flatten(-2)
        x = self.ln(x + self.wo(y))
        full = basket.ne(0).unsqueeze(-1)
        return (x * full).sum(1) / full.sum(1).clamp(min=1)

    def forward(self, basket):
        """-> (B, n_items + 1) scores"""
        return self.encode(basket) @ self.items.weight.t()


def recommend(model, basket, k=5):
    model.eval()
    with torch.no_grad():
        return model(basket).topk(k, dim=-1).indices
