import torch
import torch.nn.functional as F
from torch import nn


class BandCovariance(nn.Module):
    # hyperspectral cube (B, C, H, W): channels attend to channels inside a head,
    # the pixels play the part of the features
    def __init__(self, channels=12, heads=3):
        super().__init__()
        self.heads = heads
        self.tau = nn.Parameter(torch.linspace(0.5, 2.0, heads).view(heads, 1, 1))
        self.qkv = nn.Conv2d(channels, 3 * channels, 1, bias=False)
        self.dw = nn.Conv2d(3 * channels, 3 * channels, 3, padding=1, groups=3 * channels, bias=False)
        self.proj = nn.Conv2d(channels, channels, 1, bias=False)

    def forward(self, cube):
        B, C, H, W = cube.shape
        q, k, v = self.dw(self.qkv(cube)).view(B, 3, self.heads, C // self.heads, H * W).unbind(1)
        q = F.normalize(q, dim=-1)
        k = F.normalize(k, dim=-1)
        att = (q @ k.transpose(-2, -1) * self.tau).softmax(dim=-1)
        return self.proj((att @ v).reshape(B, C, H, W))
