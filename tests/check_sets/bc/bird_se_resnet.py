"""Bird-song spectrogram classifier with squeeze-and-excite residual blocks."""
import torch
from torch import nn

N_MELS = 64


class ChannelAttention(nn.Module):
    """Squeeze and excite, plus a small spatial gate (CBAM-like)."""

    def __init__(self, ch, reduction=4):
        super().__init__()
        self.key = nn.Linear(ch, ch // reduction)
        self.query = nn.Linear(ch // reduction, ch)
        self.value = nn.Conv2d(2, 1, 7, padding=3)

    def forward(self, x):
        squeeze = x.mean((2, 3))
        weights = torch.sigmoid(self.query(torch.relu(self.key(squeeze))))
        x = x * weights[:, :, None, None]
        stats = torch.cat([x.mean(1, keepdim=True), x.amax(1, keepdim=True)], 1)
        return x * torch.sigmoid(self.value(stats))


class SEBlock(nn.Module):
    def __init__(self, cin, cout, stride=1):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(cin, cout, 3, stride, 1, bias=False),
            nn.BatchNorm2d(cout),
            nn.ReLU(),
            nn.Conv2d(cout, cout, 3, 1, 1, bias=False),
            nn.BatchNorm2d(cout),
            ChannelAttention(cout),
        )
        self.skip = nn.Identity() if cin == cout and stride == 1 else nn.Conv2d(cin, cout, 1, stride)

    def forward(self, x):
        return torch.relu(self.body(x) + self.skip(x))


class BirdNet(nn.Module):
    def __init__(self, n_species=30, width=16):
        super().__init__()
        self.stem = nn.Conv2d(1, width, 3, 2, 1)
        self.blocks = nn.Sequential(
            SEBlock(width, width), SEBlock(width, 2 * width, 2), SEBlock(2 * width, 4 * width, 2)
        )
        self.head = nn.Linear(4 * width, n_species)

    def forward(self, mel):  # B, 1, N_MELS, frames
        return self.head(self.blocks(self.stem(mel)).mean((2, 3)))
