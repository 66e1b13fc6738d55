import torch
import torch.nn as nn


class StockPredictor(nn.Module):
    """LSTM + attention for next day return.

    x : (batch, days, features), one row per ticker. The prediction for a ticker depends on its
    own window only. The attention lets every day of the window look at all days of the same
    window. Returns (batch,).
    """

    def __init__(self, n_features=6, hidden=32, n_heads=4, dropout=0.2):
        super().__init__()
        self.lstm = nn.LSTM(n_features, hidden, num_layers=2, batch_first=True, dropout=dropout)
        self.attention = nn.MultiheadAttention(hidden, n_heads, dropout=dropout)
        self.norm = nn.LayerNorm(hidden)
        self.fc1 = nn.Linear(hidden, 16)
        self.fc2 = nn.Linear(16, 1)
        self.relu = nn.ReLU()

    def forward(self, x):
        lstm_out, _ = self.lstm(x)                               # (batch, days, hidden)
        attn_out, _ = self.attention(lstm_out, lstm_out, lstm_out)
        out = self.norm(lstm_out + attn_out)
        out = out[:, -1, :]                                      # last day
        return self.fc2(self.relu(self.fc1(out))).squeeze(-1)


def windows(prices, size):
    """prices (days, features) -> (n, size, features) and the next value of feature 0, (n,)"""
    xs = prices.unfold(0, size, 1)[:-1].transpose(1, 2)
    return xs, prices[size:, 0]
