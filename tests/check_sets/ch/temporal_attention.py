"""LSTM + temporal self-attention for multivariate load forecasting."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class TemporalAttention(nn.Module):
    """Every time step collects information from all the steps of the window.

    x: (batch, steps, features)
    weights: (batch, steps, steps), weights[b, t] is the distribution of step t
    over the steps it looks at.
    """

    def __init__(self, features, attn_dim):
        super().__init__()
        self.wq = nn.Linear(features, attn_dim)
        self.wk = nn.Linear(features, attn_dim)
        self.wv = nn.Linear(features, features)
        self.attn_dim = attn_dim

    def forward(self, x):
        query = self.wq(x)
        key = self.wk(x)
        value = self.wv(x)
        energy = torch.bmm(query, key.permute(0, 2, 1)) / self.attn_dim ** 0.5
        weights = F.softmax(energy, dim=1)
        return torch.bmm(weights, value), weights


class LoadForecaster(nn.Module):
    """(batch, look_back, n_series) -> forecast (batch, horizon, n_series)"""

    def __init__(self, n_series, hidden=32, attn_dim=16, horizon=6):
        super().__init__()
        self.n_series = n_series
        self.horizon = horizon
        self.lstm = nn.LSTM(n_series, hidden, batch_first=True)
        self.attention = TemporalAttention(hidden, attn_dim)
        self.norm = nn.LayerNorm(hidden)
        self.fc = nn.Linear(hidden, horizon * n_series)

    def forward(self, x):
        h, _ = self.lstm(x)
        ctx, _ = self.attention(h)
        last = self.norm(h + ctx)[:, -1]
        return self.fc(last).view(-1, self.horizon, self.n_series)


if __name__ == "__main__":
    net = LoadForecaster(n_series=4)
    print(net(torch.randn(8, 24, 4)).shape)
