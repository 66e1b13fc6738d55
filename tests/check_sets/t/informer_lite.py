import torch
import torch.nn as nn
import torch.nn.functional as F


class TSAttention(nn.Module):
    def __init__(self, d_model, n_heads, dropout):
        super().__init__()
        self.n_heads = n_heads
        self.dropout = dropout
        self.query = nn.Linear(d_model, d_model)
        self.key = nn.Linear(d_model, d_model)
        self.value = nn.Linear(d_model, d_model)
        self.out = nn.Linear(d_model, d_model)

    def forward(self, x):
        B, L, D = x.shape
        q = self.query(x).view(B, self.n_heads, L, D // self.n_heads)
        k = self.key(x).view(B, self.n_heads, L, D // self.n_heads)
        v = self.value(x).view(B, self.n_heads, L, D // self.n_heads)
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=self.dropout)
        return self.out(y.transpose(1, 2).reshape(B, L, D))


class Forecaster(nn.Module):
    def __init__(self, channels, horizon, seq_len=96, d_model=64, n_heads=4, layers=2, dropout=0.1):
        super().__init__()
        self.horizon = horizon
        self.embed = nn.Conv1d(channels, d_model, 3, padding=1, padding_mode="circular")
        self.pos = nn.Parameter(torch.randn(1, seq_len, d_model) * 0.02)
        self.attn = nn.ModuleList(TSAttention(d_model, n_heads, dropout) for _ in range(layers))
        self.conv = nn.ModuleList(nn.Conv1d(d_model, d_model, 1) for _ in range(layers))
        self.norm = nn.ModuleList(nn.LayerNorm(d_model) for _ in range(layers))
        self.head = nn.Linear(seq_len * d_model, horizon * channels)
        self.channels = channels

    def forward(self, x):
        mean = x.mean(1, keepdim=True)
        std = x.std(1, keepdim=True) + 1e-5
        z = self.embed(((x - mean) / std).transpose(1, 2)).transpose(1, 2) + self.pos
        for a, c, n in zip(self.attn, self.conv, self.norm):
            z = z + a(z)
            z = n(z + F.gelu(c(z.transpose(1, 2)).transpose(1, 2)))
        y = self.head(z.flatten(1)).view(-1, self.horizon, self.channels)
        return y * std + mean
