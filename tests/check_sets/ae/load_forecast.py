# day-ahead electricity load forecasting, see README for the data
import math
import torch
import torch.nn as nn
import torch.nn.functional as F


class Head(nn.Module):
    def __init__(self, d_in, d_k):
        super().__init__()
        self.wq = nn.Linear(d_in, d_k, bias=False)
        self.wk = nn.Linear(d_in, d_k, bias=False)
        self.wv = nn.Linear(d_in, d_k, bias=False)

    def forward(self, x):
        q, k, v = self.wq(x), self.wk(x), self.wv(x)
        e = torch.bmm(q, k.transpose(1, 2)) / math.sqrt(k.size(1))
        return torch.bmm(F.softmax(e, dim=2), v)


class TemporalAttention(nn.Module):
    """Scaled dot-product attention over the hours of the look-back window."""

    def __init__(self, d_model, n_heads):
        super().__init__()
        d_k = d_model // n_heads
        self.heads = [Head(d_model, d_k) for _ in range(n_heads)]
        self.out = nn.Linear(n_heads * d_k, d_model)

    def forward(self, x):
        return self.out(torch.cat([h(x) for h in self.heads], dim=-1))


class LoadForecaster(nn.Module):
    def __init__(self, n_feat, d_model=32, n_heads=4, horizon=24):
        super().__init__()
        self.inp = nn.Linear(n_feat, d_model)
        self.att = TemporalAttention(d_model, n_heads)
        self.norm = nn.LayerNorm(d_model)
        self.head = nn.Linear(d_model, horizon)

    def forward(self, x):
        h = self.inp(x)
        h = self.norm(h + self.att(h))
        return self.head(h[:, -1])
