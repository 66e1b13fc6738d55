import torch
from torch import nn


class MlpBlock(nn.Module):
    def __init__(self, dim, hidden, dropout=0.0):
        super().__init__()
        self.fc1 = nn.Linear(dim, hidden)
        self.fc2 = nn.Linear(hidden, dim)
        self.drop = nn.Dropout(dropout)

    def forward(self, x):
        return self.drop(self.fc2(nn.functional.gelu(self.fc1(x))))


class MixerLayer(nn.Module):
    def __init__(self, tokens, dim, tokens_hidden, channels_hidden, dropout=0.0):
        super().__init__()
        self.norm1 = nn.LayerNorm(dim)
        self.token_mix = MlpBlock(tokens, tokens_hidden, dropout)
        self.norm2 = nn.LayerNorm(dim)
        self.channel_mix = MlpBlock(dim, channels_hidden, dropout)

    def forward(self, x):
        y = self.token_mix(self.norm1(x).transpose(1, 2)).transpose(1, 2)
        x = x + y
        return x + self.channel_mix(self.norm2(x))


class MLPMixer(nn.Module):
    """MLP-Mixer (Tolstikhin et al., 2021): images (B, 3, S, S) -> logits (B, classes)."""

    def __init__(self, image_size=32, patch=8, dim=48, depth=3, tokens_hidden=32,
                 channels_hidden=96, classes=10, dropout=0.0):
        super().__init__()
        tokens = (image_size // patch) ** 2
        self.stem = nn.Conv2d(3, dim, kernel_size=patch, stride=patch)
        self.layers = nn.Sequential(*[
            MixerLayer(tokens, dim, tokens_hidden, channels_hidden, dropout) for _ in range(depth)
        ])
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, classes)

    def forward(self, x):
        x = self.stem(x).flatten(2).transpose(1, 2)
        x = self.norm(self.layers(x))
        return self.head(x.mean(dim=1))
