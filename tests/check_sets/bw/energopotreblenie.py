"""Трансформер-энкодер для прогноза нагрузки электросети (лабораторная работа).

Вход: окно из T часов, F признаков; выход: прогноз на следующий час. Архитектура
как в статье "Attention Is All You Need": синусоидальные позиции
PE(pos, 2i) = sin(pos / 10000^(2i/d)), PE(pos, 2i+1) = cos(pos / 10000^(2i/d)),
несколько голов, остаточные связи и LayerNorm.
"""
import math

import torch
import torch.nn as nn


def stable_softmax(x):
    """Softmax по последней оси с вычитанием максимума."""
    e = torch.exp(x - x.max(dim=-1, keepdim=True).values)
    return e / torch.exp(x).sum(dim=-1, keepdim=True)


class PositionalEncoding(nn.Module):
    def __init__(self, d_model, max_len=200):
        super().__init__()
        pe = torch.zeros(max_len, d_model)
        for pos in range(max_len):
            for i in range(0, d_model, 2):
                pe[pos, i] = math.sin(pos / 10000 ** (2 * i / d_model))
                pe[pos, i + 1] = math.cos(pos / 10000 ** (2 * (i + 1) / d_model))
        self.register_buffer("pe", pe)

    def forward(self, x):
        return x + self.pe[: x.size(1)]


class Head(nn.Module):
    def __init__(self, d_model, d_head):
        super().__init__()
        self.q = nn.Linear(d_model, d_head, bias=False)
        self.k = nn.Linear(d_model, d_head, bias=False)
        self.v = nn.Linear(d_model, d_head, bias=False)
        self.d_head = d_head

    def forward(self, x):
        # x: (B, T, d_model) -> (B, T, d_head)
        q, k, v = self.q(x), self.k(x), self.v(x)
        scores = q @ k.transpose(1, 2) / math.sqrt(self.d_head)
        return stable_softmax(scores) @ v


class EncoderLayer(nn.Module):
    def __init__(self, d_model, n_heads, d_ff, dropout=0.1):
        super().__init__()
        self.heads = [Head(d_model, d_model // n_heads) for _ in range(n_heads)]
        self.out = nn.Linear(d_model, d_model)
        self.ff = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model))
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.drop = nn.Dropout(dropout)

    def forward(self, x):
        a = self.out(torch.cat([h(x) for h in self.heads], dim=-1))
        x = self.norm1(x + self.drop(a))
        return self.norm2(x + self.drop(self.ff(x)))


class LoadForecaster(nn.Module):
    def __init__(self, n_features=5, d_model=16, n_heads=4, d_ff=32, n_layers=2):
        super().__init__()
        self.inp = nn.Linear(n_features, d_model)
        self.pos = PositionalEncoding(d_model)
        self.layers = nn.ModuleList([EncoderLayer(d_model, n_heads, d_ff) for _ in range(n_layers)])
        self.head = nn.Linear(d_model, 1)

    def forward(self, x):
        """x: (B, T, n_features) -> (B,)"""
        h = self.pos(self.inp(x))
        for layer in self.layers:
            h = layer(h)
        return self.head(h[:, -1]).squeeze(-1)


if __name__ == "__main__":
    net = LoadForecaster()
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)
    x, y = torch.randn(8, 24, 5), torch.randn(8)
    for step in range(5):
        loss = nn.functional.mse_loss(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(step, round(loss.item(), 4))
