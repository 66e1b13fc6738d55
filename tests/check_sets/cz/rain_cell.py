import torch
from torch import nn


class RainCell(nn.Module):
    """Convolutional GRU over radar frames (B, T, C, H, W) -> last state (B, K, H, W)."""

    def __init__(self, C=2, K=6, size=3):
        super().__init__()
        self.K = K
        self.zr = nn.Conv2d(C + K, 2 * K, size, padding=size // 2)
        self.new = nn.Conv2d(C + K, K, size, padding=size // 2)

    def step(self, x, h):
        z, r = torch.sigmoid(self.zr(torch.cat([x, h], 1))).chunk(2, 1)
        q = torch.tanh(self.new(torch.cat([x, r * h], 1)))
        return (1 - z) * h + z * q

    def forward(self, frames):
        B, T, _, H, W = frames.shape
        h = frames.new_zeros(B, self.K, H, W)
        for t in range(T):
            h = self.step(frames[:, t], h)
        return h
