"""Lightweight convolution (Wu et al. 2019) for birdsong tagging."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class LightConv(nn.Module):
    """Depthwise convolution over time, the kernel is shared inside each of
    ``heads`` channel groups and goes through a softmax over its taps.

    x: (B, T, C). Causal: padded on the left only.
    """

    def __init__(self, channels=24, heads=3, kernel_size=5, dropout=0.1):
        super().__init__()
        self.heads = heads
        self.kernel_size = kernel_size
        self.weight = nn.Parameter(torch.randn(heads, 1, kernel_size))
        self.inp = nn.Linear(channels, 2 * channels)
        self.out = nn.Linear(channels, channels)
        self.drop = nn.Dropout(dropout)

    def forward(self, x):
        B, T, C = x.shape
        y = F.glu(self.inp(x), dim=-1)
        kernel = self.drop(self.weight.softmax(dim=-1))
        y = y.transpose(1, 2).reshape(B * C // self.heads, self.heads, T)
        y = F.conv1d(F.pad(y, (self.kernel_size - 1, 0)), kernel, groups=self.heads)
        y = y.view(B, C, T).transpose(1, 2)
        return self.out(y)


class BirdTagger(nn.Module):
    """log-mel (B, T, mels) -> tag logits (B, tags)"""

    def __init__(self, mels=20, channels=24, heads=3, tags=6):
        super().__init__()
        self.inp = nn.Linear(mels, channels)
        self.convs = nn.ModuleList([LightConv(channels, heads, k) for k in (3, 5)])
        self.norms = nn.ModuleList([nn.LayerNorm(channels) for _ in range(2)])
        self.out = nn.Linear(channels, tags)

    def forward(self, x):
        x = self.inp(x)
        for conv, norm in zip(self.convs, self.norms):
            x = x + conv(norm(x))
        return self.out(x.mean(dim=1))
