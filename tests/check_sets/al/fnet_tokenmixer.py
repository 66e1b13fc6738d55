"""FNet (Lee-Thorp et al. 2021) and an MLP-Mixer block for the log-line classifier."""
import torch
import torch.nn as nn


class FourierMix(nn.Module):
    """Real part of the 2-D Fourier transform over tokens and channels."""

    def forward(self, x):
        return torch.fft.fft2(x.float(), dim=(-2, -1)).real.to(x.dtype)


class FNetBlock(nn.Module):
    def __init__(self, dim, ff, dropout=0.1):
        super().__init__()
        self.mix = FourierMix()
        self.norm1 = nn.LayerNorm(dim)
        self.norm2 = nn.LayerNorm(dim)
        self.ff = nn.Sequential(nn.Linear(dim, ff), nn.GELU(), nn.Linear(ff, dim), nn.Dropout(dropout))

    def forward(self, x):
        x = self.norm1(x + self.mix(x))
        return self.norm2(x + self.ff(x))


class MixerBlock(nn.Module):
    def __init__(self, dim, length, token_hidden, channel_hidden):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.tokens = nn.Sequential(nn.Linear(length, token_hidden), nn.GELU(), nn.Linear(token_hidden, length))
        self.channels = nn.Sequential(nn.Linear(dim, channel_hidden), nn.GELU(), nn.Linear(channel_hidden, dim))

    def forward(self, x):
        x = x + self.tokens(self.n1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.channels(self.n2(x))


class LogLineClassifier(nn.Module):
    def __init__(self, vocab, length=64, dim=128, depth=4, classes=6, kind="fnet"):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim, padding_idx=0)
        self.pos = nn.Parameter(torch.randn(1, length, dim) * 0.02)
        make = (lambda: FNetBlock(dim, 4 * dim)) if kind == "fnet" else (
            lambda: MixerBlock(dim, length, 2 * length, 4 * dim))
        self.blocks = nn.Sequential(*[make() for _ in range(depth)])
        self.head = nn.Linear(dim, classes)

    def forward(self, ids):
        x = self.emb(ids) + self.pos[:, : ids.shape[1]]
        return self.head(self.blocks(x).mean(1))
