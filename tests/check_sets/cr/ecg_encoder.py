import torch
import torch.nn as nn
import torch.nn.functional as F


class ECGAttention(nn.Module):
    """Multi-head self-attention over heartbeats for arrhythmia detection.

    beats: (B, T, channels) -> (B, T, channels).  `dropout` regularises the attention
    weights while training; predictions in eval mode are deterministic.
    """

    def __init__(self, channels=24, heads=3, dropout=0.2):
        super().__init__()
        self.heads = heads
        self.dropout = dropout
        self.q = nn.Linear(channels, channels)
        self.k = nn.Linear(channels, channels)
        self.v = nn.Linear(channels, channels)
        self.o = nn.Linear(channels, channels)

    def _heads(self, t):
        b, n, c = t.shape
        return t.view(b, n, self.heads, c // self.heads).transpose(1, 2)

    def forward(self, beats):
        b, n, c = beats.shape
        q, k, v = self._heads(self.q(beats)), self._heads(self.k(beats)), self._heads(self.v(beats))
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=self.dropout)
        y = y.transpose(1, 2).reshape(b, n, c)
        return self.o(y)


class ECGClassifier(nn.Module):
    def __init__(self, channels=24, classes=5):
        super().__init__()
        self.attn = ECGAttention(channels)
        self.norm = nn.LayerNorm(channels)
        self.head = nn.Linear(channels, classes)

    def forward(self, beats):
        return self.head(self.norm(beats + self.attn(beats)).mean(1))
