"""Audio tagging with a small spectrogram transformer (AST-like). Every patch can see every other patch."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class PatchSelfAttention(nn.Module):
    def __init__(self, dim=48, heads=4, p_drop=0.1):
        super().__init__()
        assert dim % heads == 0
        self.heads, self.hd = heads, dim // heads
        self.to_ear = nn.Linear(dim, dim)
        self.to_tone = nn.Linear(dim, dim)
        self.to_news = nn.Linear(dim, dim)
        self.out = nn.Linear(dim, dim)
        self.drop = nn.Dropout(p_drop)

    def forward(self, x):
        """x: (batch, patches, dim)"""
        b, n, c = x.shape
        # heads stay on the last-but-one axis, no transposes needed
        ear = self.to_ear(x).view(b, n, self.heads, self.hd)
        tone = self.to_tone(x).view(b, n, self.heads, self.hd)
        news = self.to_news(x).view(b, n, self.heads, self.hd)
        chord = torch.einsum("bihd,bjhd->bijh", ear, tone) / self.hd ** 0.5
        loud = self.drop(F.softmax(chord, dim=1))
        heard = torch.einsum("bijh,bjhd->bihd", loud, news)
        return self.out(heard.reshape(b, n, c))


class Layer(nn.Module):
    def __init__(self, dim=48, heads=4):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.att = PatchSelfAttention(dim, heads)
        self.ff = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def forward(self, x):
        x = x + self.att(self.ln1(x))
        return x + self.ff(self.ln2(x))


class AudioTagger(nn.Module):
    """log-mel (batch, 1, mels, frames) -> multi-label logits"""

    def __init__(self, mels=32, frames=64, patch=8, dim=48, depth=2, n_tags=20):
        super().__init__()
        self.stem = nn.Conv2d(1, dim, patch, stride=patch)
        n = (mels // patch) * (frames // patch)
        self.pos = nn.Parameter(torch.randn(1, n, dim) * 0.02)
        self.layers = nn.ModuleList([Layer(dim) for _ in range(depth)])
        self.head = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, n_tags))

    def forward(self, mel):
        x = self.stem(mel).flatten(2).transpose(1, 2) + self.pos
        for layer in self.layers:
            x = layer(x)
        return self.head(x.mean(dim=1))
