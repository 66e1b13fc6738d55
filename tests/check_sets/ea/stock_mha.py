"""Predict tomorrow's return from the last T trading days.

prices  : FloatTensor [batch, T, features]
missing : BoolTensor  [batch, T], True where the exchange was closed / no data for that
          stock.  These days are ignored.  The last day (T-1) is never missing.

All days of the window lie in the past, so the days may look at each other in both
directions.  Output: [batch] predicted returns.
"""
import torch
import torch.nn as nn


class StockNet(nn.Module):
    def __init__(self, n_features, d_model=32, nhead=4, max_days=120):
        super().__init__()
        self.inp = nn.Linear(n_features, d_model)
        self.day = nn.Embedding(max_days, d_model)
        self.attn = nn.MultiheadAttention(d_model, nhead, dropout=0.1)
        self.ln1 = nn.LayerNorm(d_model)
        self.ff = nn.Sequential(nn.Linear(d_model, 64), nn.ReLU(), nn.Linear(64, d_model))
        self.ln2 = nn.LayerNorm(d_model)
        self.out = nn.Linear(d_model, 1)

    def forward(self, prices, missing):
        T = prices.size(1)
        x = self.inp(prices) + self.day(torch.arange(T, device=prices.device))
        x = x.permute(1, 0, 2)                      # seq first
        a, _ = self.attn(x, x, x, key_padding_mask=missing, need_weights=False)
        x = self.ln1(x + a)
        x = self.ln2(x + self.ff(x))
        return self.out(x[-1]).squeeze(-1)
