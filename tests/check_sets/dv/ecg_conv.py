"""Arrhythmia classifier on single lead ECG: residual 1-d CNN with a gated unit and masked mean."""
import torch
from torch import nn


class GatedResBlock(nn.Module):
    """x (B, C, T) -> (B, C, T): x + tanh(conv(x)) * sigmoid(conv(x))"""

    def __init__(self, c, dilation):
        super().__init__()
        self.norm = nn.BatchNorm1d(c)
        self.filt = nn.Conv1d(c, c, 3, padding=dilation, dilation=dilation)
        self.gate = nn.Conv1d(c, c, 3, padding=dilation, dilation=dilation)

    def forward(self, x):
        y = self.norm(x)
        return x + torch.tanh(self.filt(y)) * torch.sigmoid(self.gate(y))


class ECGNet(nn.Module):
    """signal (B, T), n_samples (B,) real samples per record -> class logits (B, classes).
    The features are averaged over the real samples."""

    def __init__(self, classes=4, c=16, depth=4):
        super().__init__()
        self.stem = nn.Conv1d(1, c, 7, padding=3)
        self.body = nn.Sequential(*[GatedResBlock(c, 2 ** i) for i in range(depth)])
        self.head = nn.Linear(c, classes)

    def forward(self, signal, n_samples):
        h = self.body(self.stem(signal.unsqueeze(1)))
        t = torch.arange(signal.size(1), device=signal.device)
        m = (t[None] < n_samples[:, None]).float().unsqueeze(1)          # B, 1, T
        h = (h * m).sum(-1) / m.sum(-1)
        return self.head(h)
