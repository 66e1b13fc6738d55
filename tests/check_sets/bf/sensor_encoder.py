"""时间序列编码器: 工厂传感器异常检测.

输入 x: (B, T, C); valid: (B, T), 1 表示有效时间步, 0 表示填充.
填充的时间步不能被任何位置关注.
"""
import math

import torch
import torch.nn as nn


class SensorAttention(nn.Module):
    def __init__(self, d_model=32, n_heads=4, dropout=0.1):
        super().__init__()
        self.h = n_heads
        self.dk = d_model // n_heads
        self.wq = nn.Linear(d_model, d_model)
        self.wk = nn.Linear(d_model, d_model)
        self.wv = nn.Linear(d_model, d_model)
        self.wo = nn.Linear(d_model, d_model)
        self.drop = nn.Dropout(dropout)

    def forward(self, x, valid=None):
        B, T, D = x.shape
        # (B, h, T, dk)
        q = self.wq(x).view(B, T, self.h, self.dk).transpose(1, 2)
        k = self.wk(x).view(B, T, self.h, self.dk).transpose(1, 2)
        v = self.wv(x).view(B, T, self.h, self.dk).transpose(1, 2)
        scores = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(self.dk)
        if valid is not None:
            m = valid.unsqueeze(1).unsqueeze(3)
            scores = scores.masked_fill(m == 0, -1e9)
        p = self.drop(torch.softmax(scores, dim=-1))
        y = torch.matmul(p, v).transpose(1, 2).contiguous().view(B, T, D)
        return self.wo(y)


class SensorEncoder(nn.Module):
    def __init__(self, channels=8, d_model=32, layers=2):
        super().__init__()
        self.inp = nn.Linear(channels, d_model)
        self.att = nn.ModuleList([SensorAttention(d_model) for _ in range(layers)])
        self.ln = nn.ModuleList([nn.LayerNorm(d_model) for _ in range(layers)])
        self.rec = nn.Linear(d_model, channels)

    def forward(self, x, valid=None):
        h = self.inp(x)
        for a, n in zip(self.att, self.ln):
            h = n(h + a(h, valid))
        return self.rec(h)


def anomaly_score(model, x, valid):
    """每个样本的平均重构误差 (只计算有效步)"""
    model.eval()
    with torch.no_grad():
        err = (model(x, valid) - x).pow(2).mean(-1) * valid
    return err.sum(1) / valid.sum(1)
