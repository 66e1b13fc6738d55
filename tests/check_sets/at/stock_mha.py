"""LSTM + attention for next-day returns.

Dataset windows come from the DataLoader as (batch, window, n_features);
every window is one ticker and tickers must not see each other.
"""
import math
import torch
import torch.nn as nn
from torch.utils.data import Dataset


class WindowDataset(Dataset):
    def __init__(self, prices, feats, window=30):
        self.feats = torch.as_tensor(feats, dtype=torch.float32)
        p = torch.as_tensor(prices, dtype=torch.float32)
        self.ret = torch.log(p[1:] / p[:-1])
        self.window = window

    def __len__(self):
        return len(self.ret) - self.window

    def __getitem__(self, i):
        x = self.feats[i:i + self.window]
        x = (x - x.mean(0)) / (x.std(0) + 1e-6)
        return x, self.ret[i + self.window - 1]


class TimeEncoding(nn.Module):
    def __init__(self, d, max_len=512):
        super().__init__()
        t = torch.arange(max_len).unsqueeze(1).float()
        f = torch.exp(torch.arange(0, d, 2).float() * (-math.log(10000.0) / d))
        pe = torch.zeros(1, max_len, d)
        pe[0, :, 0::2] = torch.sin(t * f)
        pe[0, :, 1::2] = torch.cos(t * f)
        self.register_buffer("pe", pe)

    def forward(self, x):
        return x + self.pe[:, :x.size(1)]


class StockAttention(nn.Module):
    """(B, T, F) -> (B,), self-attention over the T days of each window."""

    def __init__(self, n_features, hidden=64, heads=4, layers=1, dropout=0.1):
        super().__init__()
        self.lstm = nn.LSTM(n_features, hidden, layers, batch_first=True)
        self.enc = TimeEncoding(hidden)
        self.attn = nn.MultiheadAttention(hidden, heads, dropout=dropout)
        self.norm = nn.LayerNorm(hidden)
        self.head = nn.Sequential(nn.Linear(hidden, hidden // 2), nn.ReLU(), nn.Linear(hidden // 2, 1))

    def forward(self, x):
        h, _ = self.lstm(x)
        h = self.enc(h)
        a, _ = self.attn(h, h, h, need_weights=False)
        h = self.norm(h + a)
        return self.head(h[:, -1]).squeeze(-1)


def sharpe(returns, periods=252):
    return float(returns.mean() / (returns.std() + 1e-9) * math.sqrt(periods))


def backtest(model, loader, cost=1e-4):
    model.eval()
    pnl, last = [], 0.0
    with torch.no_grad():
        for x, y in loader:
            pos = torch.sign(model(x))
            for p, r in zip(pos.tolist(), y.tolist()):
                pnl.append(p * r - cost * abs(p - last))
                last = p
    return torch.tensor(pnl)
