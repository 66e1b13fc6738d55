"""Sound event detection: residual CNN with channel gates (squeeze and excite)."""
import torch
import torch.nn as nn


class ChannelAttention(nn.Module):
    """Reweights channels by a gate computed from the global average.  x (B, C, F, T)"""

    def __init__(self, channels, reduction=4):
        super().__init__()
        self.query = nn.Linear(channels, channels // reduction)
        self.key = nn.Linear(channels // reduction, channels)

    def forward(self, x):
        s = x.mean(dim=(2, 3))
        w = torch.sigmoid(self.key(torch.relu(self.query(s))))
        return x * w[:, :, None, None]


class ResBlock(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.conv1 = nn.Conv2d(c, c, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(c)
        self.conv2 = nn.Conv2d(c, c, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(c)
        self.attn = ChannelAttention(c)

    def forward(self, x):
        y = torch.relu(self.bn1(self.conv1(x)))
        y = self.attn(self.bn2(self.conv2(y)))
        return torch.relu(x + y)


class SoundEventNet(nn.Module):
    def __init__(self, classes=10, c=16, blocks=2):
        super().__init__()
        self.stem = nn.Conv2d(1, c, 3, padding=1)
        self.body = nn.Sequential(*[ResBlock(c) for _ in range(blocks)])
        self.head = nn.Linear(c, classes)

    def forward(self, spec):
        """spec (B, F, T) log-mel -> frame probabilities (B, T, classes)"""
        x = self.body(self.stem(spec.unsqueeze(1)))
        x = x.mean(dim=2).transpose(1, 2)
        return torch.sigmoid(self.head(x))


if __name__ == "__main__":
    print(SoundEventNet()(torch.randn(2, 32, 50)).shape)
