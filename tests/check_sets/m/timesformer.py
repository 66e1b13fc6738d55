import torch
from torch import nn


class DividedSpaceTime(nn.Module):
    """x (B, frames, patches, C): first attention over the frames of each patch, then over the patches of each frame."""

    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.time = nn.Linear(dim, 3 * dim)
        self.time_out = nn.Linear(dim, dim)
        self.space = nn.Linear(dim, 3 * dim)
        self.space_out = nn.Linear(dim, dim)

    def mix(self, x, inp, out):
        *lead, n, c = x.shape
        q, k, v = inp(x).reshape(*lead, n, 3, self.heads, c // self.heads).movedim(-3, 0).transpose(-2, -3)
        w = torch.softmax(q @ k.transpose(-1, -2) / (c // self.heads) ** 0.5, dim=-1)
        return out((w @ v).transpose(-2, -3).reshape(*lead, n, c))

    def forward(self, x):
        x = x + self.mix(x.transpose(1, 2), self.time, self.time_out).transpose(1, 2)
        return x + self.mix(x, self.space, self.space_out)
