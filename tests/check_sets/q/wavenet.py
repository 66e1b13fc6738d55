import torch
from torch import nn
import torch.nn.functional as F


class WaveNetBlock(nn.Module):
    """Gated dilated causal convolution.  x: (B, C, T) -> residual (B, C, T), skip (B, C, T)"""

    def __init__(self, channels=6, dilation=2):
        super().__init__()
        self.pad = dilation
        self.filter = nn.Conv1d(channels, channels, 2, dilation=dilation)
        self.gate = nn.Conv1d(channels, channels, 2, dilation=dilation)
        self.res = nn.Conv1d(channels, channels, 1)
        self.skip = nn.Conv1d(channels, channels, 1)

    def forward(self, x):
        y = F.pad(x, (self.pad, 0))
        z = torch.tanh(self.filter(y)) * torch.sigmoid(self.gate(y))
        return x + self.res(z), self.skip(z)
