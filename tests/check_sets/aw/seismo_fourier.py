"""Phase picker for seismic traces: Fourier token mixing and a gated depth-wise convolution."""
import torch
from torch import nn


class FourierMix(nn.Module):
    """y = Re FFT_time(FFT_channel(x)); no parameters."""

    def forward(self, x):
        return torch.fft.fft(torch.fft.fft(x, dim=-1, norm="ortho"), dim=-2, norm="ortho").real


class GatedDepthwise(nn.Module):
    def __init__(self, dim, kernel=9):
        super().__init__()
        self.inp = nn.Linear(dim, 2 * dim)
        self.dw = nn.Conv1d(dim, dim, kernel, padding=kernel // 2, groups=dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, x):
        a, g = self.inp(x).chunk(2, -1)
        a = self.dw(a.transpose(1, 2)).transpose(1, 2)
        return self.out(a * torch.sigmoid(g))


class PickerBlock(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.n1, self.n2, self.n3 = (nn.LayerNorm(dim) for _ in range(3))
        self.mix = FourierMix()
        self.conv = GatedDepthwise(dim)
        self.ff = nn.Sequential(nn.Linear(dim, 2 * dim), nn.SiLU(), nn.Linear(2 * dim, dim))

    def forward(self, x):
        x = x + self.mix(self.n1(x))
        x = x + self.conv(self.n2(x))
        return x + self.ff(self.n3(x))


class PhasePicker(nn.Module):
    def __init__(self, dim=32, depth=3):
        super().__init__()
        self.stem = nn.Conv1d(3, dim, 7, stride=2, padding=3)
        self.blocks = nn.Sequential(*[PickerBlock(dim) for _ in range(depth)])
        self.head = nn.Linear(dim, 3)

    def forward(self, trace):                    # [B, 3, T]
        x = self.stem(trace).transpose(1, 2)
        return torch.softmax(self.head(self.blocks(x)), dim=-1)
