import torch
from torch import nn


class IceCoreMixer(nn.Module):
    """Self-attention between the layers of an ice core, with linear distance biases.

    proxies (B, N, width), age (B, N) in millennia, sorted or not.
    Each head has a fixed slope and penalises layers that are far away in time;
    heads with a steep slope look at their surroundings only.  `heads` is a power of two.
    """

    def __init__(self, width=24, heads=4):
        super().__init__()
        self.heads = heads
        self.register_buffer("steep", 2.0 ** (-8.0 * torch.arange(1, heads + 1) / heads))
        self.inn = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, proxies, age):
        B, N, W = proxies.shape
        q, k, v = self.inn(proxies).view(B, N, 3, self.heads, W // self.heads).permute(2, 0, 3, 1, 4)
        gap = (age[:, :, None] - age[:, None, :]).abs()
        s = q @ k.transpose(2, 3) / (W // self.heads) ** 0.5
        s = s + self.steep.view(1, -1, 1, 1) * gap[:, None]
        return self.out((torch.softmax(s, -1) @ v).transpose(1, 2).reshape(B, N, W))
