"""Домашнее задание 4: энкодер трансформера «с нуля» для классификации новостей.

tokens (B, L) — тексты одинаковой длины (обрезаны, без паддинга), L <= max_len
выход  (B, n_classes) — логиты

Что требуется по условию:
  * позиции: PE[p, 2i] = sin(p / 10000^(2i/d_model)), PE[p, 2i+1] = cos(p / 10000^(2i/d_model))
  * внимание: softmax(Q K^T / sqrt(d_k)) V, softmax по ключам — для каждого слова-запроса
    веса всех слов текста в сумме дают 1
  * post-norm, как в статье
"""
import torch
import torch.nn as nn


class PositionalEncoding(nn.Module):
    def __init__(self, d_model, max_len=200):
        super().__init__()
        pe = torch.zeros(max_len, d_model)
        pos = torch.arange(max_len, dtype=torch.float32)
        for i in range(0, d_model, 2):
            angle = pos / (10000 ** (2 * i / d_model))
            pe[:, i] = torch.sin(angle)
            pe[:, i + 1] = torch.cos(angle)
        self.register_buffer("pe", pe.unsqueeze(0))

    def forward(self, x):
        return x + self.pe[:, : x.size(1)]


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n_heads, self.d_k = n_heads, d_model // n_heads
        self.W_q = nn.Linear(d_model, d_model)
        self.W_k = nn.Linear(d_model, d_model)
        self.W_v = nn.Linear(d_model, d_model)
        self.W_o = nn.Linear(d_model, d_model)

    def forward(self, x):
        B, L, D = x.shape
        Q = self.W_q(x).view(B, L, self.n_heads, self.d_k).transpose(1, 2)
        K = self.W_k(x).view(B, L, self.n_heads, self.d_k).transpose(1, 2)
        V = self.W_v(x).view(B, L, self.n_heads, self.d_k).transpose(1, 2)
        scores = Q @ K.transpose(-2, -1)
        weights = torch.softmax(scores, dim=2)
        out = weights @ V
        return self.W_o(out.transpose(1, 2).reshape(B, L, D))


class NewsEncoder(nn.Module):
    def __init__(self, vocab, d_model=64, n_heads=4, n_layers=2, n_classes=4, p=0.1):
        super().__init__()
        self.emb = nn.Embedding(vocab, d_model)
        self.pe = PositionalEncoding(d_model)
        self.att = nn.ModuleList(MultiHeadAttention(d_model, n_heads) for _ in range(n_layers))
        self.ff = nn.ModuleList(
            nn.Sequential(nn.Linear(d_model, 2 * d_model), nn.ReLU(), nn.Linear(2 * d_model, d_model))
            for _ in range(n_layers)
        )
        self.ln = nn.ModuleList(nn.LayerNorm(d_model) for _ in range(2 * n_layers))
        self.drop = nn.Dropout(p)
        self.cls = nn.Linear(d_model, n_classes)

    def forward(self, tokens):
        x = self.drop(self.pe(self.emb(tokens)))
        for i, (att, ff) in enumerate(zip(self.att, self.ff)):
            x = self.ln[2 * i](x + self.drop(att(x)))
            x = self.ln[2 * i + 1](x + self.drop(ff(x)))
        return self.cls(x.mean(dim=1))
