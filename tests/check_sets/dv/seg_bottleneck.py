"""U-Net bottleneck with multi-head self-attention, liver CT slices."""
import torch
import torch.nn as nn
from torch import Tensor


class BottleneckMHSA(nn.Module):
    """Input/output [B, C, H, W]. The H*W pixels are the tokens, each reads all pixels.

    C is divided into `heads` consecutive groups of channels, one per head; the logits of a head
    are q.k / sqrt(C / heads). The result is added to the input.
    """

    def __init__(self, channels: int = 32, heads: int = 8, groups: int = 4):
        super().__init__()
        self.heads = heads
        self.norm = nn.GroupNorm(groups, channels)
        self.q = nn.Linear(channels, channels)
        self.k = nn.Linear(channels, channels)
        self.v = nn.Linear(channels, channels)
        self.proj = nn.Linear(channels, channels)

    def forward(self, x: Tensor) -> Tensor:
        B, C, H, W = x.shape
        t = self.norm(x).flatten(2).transpose(1, 2)              # b n c
        n = H * W
        q = self.q(t).view(B, self.heads, n, C // self.heads)    # b h n d
        k = self.k(t).view(B, self.heads, n, C // self.heads)
        v = self.v(t).view(B, self.heads, n, C // self.heads)
        attn = q @ k.transpose(-2, -1) / self.heads ** 0.5
        attn = attn.softmax(dim=-1)
        y = (attn @ v).transpose(1, 2).reshape(B, n, C)          # b n (h d)
        y = self.proj(y).transpose(1, 2).reshape(B, C, H, W)
        return x + y


class DoubleConv(nn.Module):
    """(conv => BN => ReLU) * 2"""

    def __init__(self, cin: int, cout: int):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(cin, cout, 3, padding=1), nn.BatchNorm2d(cout), nn.ReLU(),
            nn.Conv2d(cout, cout, 3, padding=1), nn.BatchNorm2d(cout), nn.ReLU(),
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x)
