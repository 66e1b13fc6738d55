"""MLP-Mixer for small pictures: patches mix through a plain MLP over the patch axis."""
import torch
import torch.nn as nn


class Mlp(nn.Module):
    def __init__(self, dim, hidden, dropout=0.0):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(dim, hidden), nn.GELU(), nn.Dropout(dropout), nn.Linear(hidden, dim))

    def forward(self, x):
        return self.net(x)


class MixerLayer(nn.Module):
    def __init__(self, n_patches, dim, token_hidden, channel_hidden, dropout):
        super().__init__()
        self.norm1 = nn.LayerNorm(dim)
        self.token_mix = Mlp(n_patches, token_hidden, dropout)
        self.norm2 = nn.LayerNorm(dim)
        self.channel_mix = Mlp(dim, channel_hidden, dropout)

    def forward(self, x):
        x = x + self.token_mix(self.norm1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.channel_mix(self.norm2(x))


class PatchMixer(nn.Module):
    """images (B, 3, size, size) -> logits (B, n_classes)"""

    def __init__(self, size=16, patch=4, dim=24, depth=2, n_classes=10, dropout=0.0):
        super().__init__()
        n = (size // patch) ** 2
        self.stem = nn.Conv2d(3, dim, patch, stride=patch)
        self.layers = nn.Sequential(*[MixerLayer(n, dim, 2 * n, 4 * dim, dropout) for _ in range(depth)])
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, n_classes)

    def forward(self, images):
        x = self.stem(images).flatten(2).transpose(1, 2)
        x = self.norm(self.layers(x)).mean(dim=1)
        return self.head(x)
