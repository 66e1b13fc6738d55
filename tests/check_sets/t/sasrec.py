import torch
import torch.nn as nn


class SASRec(nn.Module):
    # self-attentive sequential recommendation
    def __init__(self, n_items, max_len=50, d=32, heads=2, layers=2, p=0.2):
        super().__init__()
        self.item = nn.Embedding(n_items, d)
        self.pos = nn.Embedding(max_len, d)
        self.drop = nn.Dropout(p)
        self.layers = nn.ModuleList(SASLayer(d, heads, p) for _ in range(layers))
        self.norm = nn.LayerNorm(d)

    def forward(self, seq):
        x = self.item(seq) * self.item.embedding_dim**0.5
        x = self.drop(x + self.pos(torch.arange(seq.size(1), device=seq.device)))
        for layer in self.layers:
            x = layer(x)
        return self.norm(x)

    def scores(self, seq):
        # next-item scores at every position, (B, L, n_items)
        return self.forward(seq) @ self.item.weight.T


class SASLayer(nn.Module):
    def __init__(self, d, heads, p):
        super().__init__()
        self.h, self.dk = heads, d // heads
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.q, self.k, self.v, self.o = (nn.Linear(d, d) for _ in range(4))
        self.ff = nn.Sequential(nn.Linear(d, d), nn.ReLU(), nn.Dropout(p), nn.Linear(d, d))
        self.drop = nn.Dropout(p)

    def forward(self, x):
        B, L, d = x.shape
        y = self.n1(x)
        q = self.q(y).view(B, L, self.h, self.dk).transpose(1, 2)
        k = self.k(x).view(B, L, self.h, self.dk).transpose(1, 2)
        v = self.v(x).view(B, L, self.h, self.dk).transpose(1, 2)
        s = q @ k.transpose(-2, -1) / self.dk**0.5
        # causality: an item sees itself and what came before
        future = torch.triu(torch.ones(L, L, dtype=torch.bool, device=x.device), diagonal=2)
        s = s.masked_fill(future, float("-inf"))
        a = self.drop(s.softmax(-1))
        y = y + self.o((a @ v).transpose(1, 2).reshape(B, L, d))
        return y + self.drop(self.ff(self.n2(y)))
