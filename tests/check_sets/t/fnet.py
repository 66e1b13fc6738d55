import torch
from torch import nn


class FourierMixing(nn.Module):
    """Token mixing of FNet: real part of a 2-D DFT over (length, hidden)."""

    def forward(self, x):
        return torch.fft.fft2(x.float(), dim=(-2, -1)).real.type_as(x)


class FNetLayer(nn.Module):
    """x: (batch, length, dim) -> (batch, length, dim)"""

    def __init__(self, dim, hidden, dropout=0.1):
        super().__init__()
        self.mix = FourierMixing()
        self.norm1 = nn.LayerNorm(dim)
        self.ff = nn.Sequential(nn.Linear(dim, hidden), nn.GELU(), nn.Linear(hidden, dim), nn.Dropout(dropout))
        self.norm2 = nn.LayerNorm(dim)

    def forward(self, x):
        x = self.norm1(x + self.mix(x))
        return self.norm2(x + self.ff(x))


class FNetClassifier(nn.Module):
    """Encoder and a softmax over classes."""

    def __init__(self, vocab, classes, dim=64, depth=2, max_len=128):
        super().__init__()
        self.tok = nn.Embedding(vocab, dim)
        self.pos = nn.Embedding(max_len, dim)
        self.layers = nn.ModuleList(FNetLayer(dim, 4 * dim) for _ in range(depth))
        self.head = nn.Linear(dim, classes)

    def forward(self, ids):
        x = self.tok(ids) + self.pos(torch.arange(ids.size(1), device=ids.device))
        for layer in self.layers:
            x = layer(x)
        return self.head(x.mean(1)).softmax(-1)
