"""Bookmobile stops: how many readers will come to each stop of the tour?"""
import math

import torch
import torch.nn as nn

CFG = {"features": 6, "dim": 16, "heads": 4, "layers": 2, "max_stops": 64}


def stop_code(n: int, dim: int) -> torch.Tensor:
    """Sinusoids of Vaswani et al.: column 2j and 2j+1 have the frequency 10000^(-2j/dim)."""
    pe = torch.zeros(n, dim)
    pos = torch.arange(n, dtype=torch.float).unsqueeze(1)
    for i in range(0, dim, 2):
        div = math.pow(10000.0, 2 * i / dim)
        pe[:, i] = torch.sin(pos / div).squeeze(1)
        pe[:, i + 1] = torch.cos(pos / div).squeeze(1)
    return pe


class TourAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.dim, self.heads, self.dk = dim, heads, dim // heads
        self.wq = nn.Linear(dim, dim)
        self.wk = nn.Linear(dim, dim)
        self.wv = nn.Linear(dim, dim)
        self.wo = nn.Linear(dim, dim)

    def split(self, t):
        return t.view(t.size(0), -1, self.heads, self.dk).transpose(1, 2)

    def join(self, t):
        return t.contiguous().view(t.size(0), -1, self.dim)

    def forward(self, x, is_open=None):
        q, k, v = self.split(self.wq(x)), self.split(self.wk(x)), self.split(self.wv(x))
        scores = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(self.dk)
        if is_open is not None:
            scores = scores + is_open[:, None, None, :]
        return self.wo(self.join(torch.matmul(scores.softmax(-1), v)))


class TourLayer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.att = TourAttention(dim, heads)
        self.ff = nn.Sequential(nn.Linear(dim, 4 * dim), nn.ReLU(), nn.Linear(4 * dim, dim))
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)

    def forward(self, x, is_open):
        x = self.n1(x + self.att(x, is_open))
        return self.n2(x + self.ff(x))


class BookmobileEncoder(nn.Module):
    """stops (B, N, features), is_open (B, N) bool: closed stops (False) must not
    influence any other stop.  -> readers (B, N)"""

    def __init__(self, cfg=CFG):
        super().__init__()
        self.inp = nn.Linear(cfg["features"], cfg["dim"])
        self.register_buffer("code", stop_code(cfg["max_stops"], cfg["dim"]))
        self.layers = nn.ModuleList([TourLayer(cfg["dim"], cfg["heads"]) for _ in range(cfg["layers"])])
        self.readers = nn.Linear(cfg["dim"], 1)

    def forward(self, stops, is_open=None):
        h = self.inp(stops) + self.code[: stops.size(1)]
        for layer in self.layers:
            h = layer(h, is_open)
        return self.readers(h).squeeze(-1)


if __name__ == "__main__":
    net = BookmobileEncoder()
    print(net(torch.randn(2, 9, 6), torch.rand(2, 9) > 0.3).shape)
