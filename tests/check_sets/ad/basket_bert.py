"""BERT4Rec, small. Items are ints, 0 is the filler of short histories."""
import math
import torch
import torch.nn as nn


class BasketAttention(nn.Module):
    def __init__(self, hidden, heads, dropout):
        super().__init__()
        self.heads = heads
        self.d = hidden // heads
        self.query = nn.Linear(hidden, hidden)
        self.key = nn.Linear(hidden, hidden)
        self.value = nn.Linear(hidden, hidden)
        self.out = nn.Linear(hidden, hidden)
        self.dropout = nn.Dropout(dropout)

    def heads_first(self, x):
        return x.view(x.size(0), -1, self.heads, self.d).transpose(1, 2)

    def forward(self, x, item_mask):
        """x [B, L, hidden]; item_mask [B, L], 1 for an item and 0 for filler"""
        q, k, v = map(self.heads_first, (self.query(x), self.key(x), self.value(x)))
        scores = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(self.d)
        m = item_mask[:, None, None, :].bool()
        scores = scores.masked_fill(m, torch.finfo(scores.dtype).min)
        probs = self.dropout(torch.softmax(scores, dim=-1))
        ctx = torch.matmul(probs, v).transpose(1, 2).contiguous()
        return self.out(ctx.view(x.size(0), -1, self.heads * self.d))


class Layer(nn.Module):
    def __init__(self, hidden, heads, dropout):
        super().__init__()
        self.att = BasketAttention(hidden, heads, dropout)
        self.ffn = nn.Sequential(nn.Linear(hidden, hidden * 4), nn.GELU(), nn.Linear(hidden * 4, hidden))
        self.n1, self.n2 = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, item_mask):
        x = self.n1(x + self.dropout(self.att(x, item_mask)))
        return self.n2(x + self.dropout(self.ffn(x)))


class BasketBert(nn.Module):
    def __init__(self, n_items, max_len=50, hidden=64, heads=2, layers=2, dropout=0.1):
        super().__init__()
        self.item = nn.Embedding(n_items + 2, hidden, padding_idx=0)   # + mask token
        self.pos = nn.Embedding(max_len, hidden)
        self.layers = nn.ModuleList(Layer(hidden, heads, dropout) for _ in range(layers))
        self.bias = nn.Parameter(torch.zeros(n_items + 2))

    def forward(self, seq):
        real = (seq > 0).long()
        x = self.item(seq) + self.pos(torch.arange(seq.size(1), device=seq.device))
        for layer in self.layers:
            x = layer(x, real)
        return x @ self.item.weight.t() + self.bias
