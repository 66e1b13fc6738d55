"""Gated temporal convolution network for load forecasting (WaveNet style).

Each layer:  tanh(conv_f(x)) * sigmoid(conv_g(x)), dilated, causal, with residual and
skip connections.  A squeeze-and-excite gate then weighs the channels of the summary.
"""
import torch
import torch.nn.functional as F
from torch import nn


class GatedLayer(nn.Module):
    def __init__(self, channels, kernel, dilation):
        super().__init__()
        self.left = (kernel - 1) * dilation
        self.filter = nn.Conv1d(channels, channels, kernel, dilation=dilation)
        self.gate = nn.Conv1d(channels, channels, kernel, dilation=dilation)
        self.res = nn.Conv1d(channels, channels, 1)
        self.skip = nn.Conv1d(channels, channels, 1)

    def forward(self, x):
        padded = F.pad(x, (self.left, 0))
        z = torch.tanh(self.filter(padded)) * torch.sigmoid(self.gate(padded))
        return x + self.res(z), self.skip(z)


class ChannelGate(nn.Module):
    """Squeeze and excite: one factor in (0, 1) per channel, from the last step."""

    def __init__(self, channels, reduction=4):
        super().__init__()
        self.down = nn.Linear(channels, channels // reduction)
        self.up = nn.Linear(channels // reduction, channels)

    def forward(self, x):
        return x * torch.sigmoid(self.up(F.relu(self.down(x))))


class LoadForecaster(nn.Module):
    """history [B, T, inputs] -> forecast [B, horizon] (T any length)"""

    def __init__(self, inputs=4, channels=16, kernel=2, layers=5, horizon=24):
        super().__init__()
        self.stem = nn.Conv1d(inputs, channels, 1)
        self.layers = nn.ModuleList(GatedLayer(channels, kernel, 2 ** i) for i in range(layers))
        self.weigh = ChannelGate(channels)
        self.head = nn.Sequential(nn.ReLU(), nn.Linear(channels, channels), nn.ReLU(),
                                  nn.Linear(channels, horizon))

    @property
    def receptive_field(self):
        return 1 + sum(layer.left for layer in self.layers)

    def forward(self, history):
        x = self.stem(history.transpose(1, 2))
        total = 0
        for layer in self.layers:
            x, skip = layer(x)
            total = total + skip
        return self.head(self.weigh(total[:, :, -1]))
