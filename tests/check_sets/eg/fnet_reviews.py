"""FNet for product reviews: the attention sublayer is replaced by a Fourier transform.

ids (B, T) word ids -> logits (B, n_class). All reviews are cut to the same length T.
"""
import torch
import torch.nn as nn


class FourierMixing(nn.Module):
    """x (B, T, D) -> real part of the 2-D DFT over time and features, no parameters."""

    def forward(self, x):
        return torch.fft.fft(torch.fft.fft(x, dim=-1), dim=-2).real


class FNetBlock(nn.Module):
    def __init__(self, dim, hidden, dropout=0.1):
        super().__init__()
        self.mix = FourierMixing()
        self.norm1 = nn.LayerNorm(dim)
        self.ff = nn.Sequential(nn.Linear(dim, hidden), nn.GELU(), nn.Linear(hidden, dim), nn.Dropout(dropout))
        self.norm2 = nn.LayerNorm(dim)

    def forward(self, x):
        x = self.norm1(x + self.mix(x))
        return self.norm2(x + self.ff(x))


class FNet(nn.Module):
    def __init__(self, vocab=100, length=16, dim=32, hidden=64, depth=2, n_class=3):
        super().__init__()
        self.tok = nn.Embedding(vocab, dim)
        self.pos = nn.Parameter(torch.randn(length, dim) * 0.02)
        self.blocks = nn.Sequential(*[FNetBlock(dim, hidden) for _ in range(depth)])
        self.pool = nn.Sequential(nn.Linear(dim, dim), nn.Tanh())
        self.head = nn.Linear(dim, n_class)

    def forward(self, ids):
        x = self.tok(ids) + self.pos[: ids.size(1)]
        x = self.blocks(x)
        return self.head(self.pool(x[:, 0]))
