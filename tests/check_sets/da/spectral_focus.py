import torch
from torch import nn


class SpectralFocus(nn.Module):
    """Stellar spectra (B, C, L): depthwise convolution, then a gated channel MLP."""

    def __init__(self, channels=8, expand=2, kernel=7):
        super().__init__()
        self.norm = nn.GroupNorm(1, channels)
        self.key = nn.Conv1d(channels, channels, kernel, padding=kernel // 2, groups=channels)
        self.value = nn.Conv1d(channels, 2 * expand * channels, 1)
        self.out = nn.Conv1d(expand * channels, channels, 1)

    def forward(self, flux):
        h, gate = self.value(self.key(self.norm(flux))).chunk(2, dim=1)
        return flux + self.out(h * torch.nn.functional.silu(gate))
