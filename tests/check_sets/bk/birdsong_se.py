"""Bird species from log-mel patches: residual CNN with channel attention blocks."""
import torch
import torch.nn as nn


class ChannelAttention(nn.Module):
    """CBAM channel attention: sigmoid(MLP(avgpool) + MLP(maxpool)) scales the channels."""

    def __init__(self, channels: int, reduction: int = 8):
        super().__init__()
        self.query = nn.Conv2d(channels, channels // reduction, 1, bias=False)
        self.key = nn.Conv2d(channels // reduction, channels, 1, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        avg = x.mean(dim=(2, 3), keepdim=True)
        top = x.amax(dim=(2, 3), keepdim=True)
        score = self.key(self.query(avg).relu()) + self.key(self.query(top).relu())
        return x * score.sigmoid()


class TimeFrequencyGate(nn.Module):
    """CBAM spatial attention on [mean, max] over the channels."""

    def __init__(self, kernel: int = 7):
        super().__init__()
        self.conv = nn.Conv2d(2, 1, kernel, padding=kernel // 2, bias=False)

    def forward(self, x):
        s = torch.cat([x.mean(1, keepdim=True), x.amax(1, keepdim=True)], dim=1)
        return x * self.conv(s).sigmoid()


class Residual(nn.Module):
    def __init__(self, c_in: int, c_out: int, stride: int = 1):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(c_in, c_out, 3, stride, 1, bias=False),
            nn.BatchNorm2d(c_out),
            nn.ReLU(inplace=True),
            nn.Conv2d(c_out, c_out, 3, 1, 1, bias=False),
            nn.BatchNorm2d(c_out),
        )
        self.attn = nn.Sequential(ChannelAttention(c_out), TimeFrequencyGate())
        self.skip = nn.Identity() if (c_in, stride) == (c_out, 1) else nn.Conv2d(c_in, c_out, 1, stride)

    def forward(self, x):
        return torch.relu(self.attn(self.body(x)) + self.skip(x))


class BirdNet(nn.Module):
    def __init__(self, n_species: int = 264, width: int = 16):
        super().__init__()
        self.stem = nn.Conv2d(1, width, 5, 2, 2)
        self.stages = nn.Sequential(
            Residual(width, width), Residual(width, 2 * width, 2), Residual(2 * width, 4 * width, 2)
        )
        self.head = nn.Linear(4 * width, n_species)

    def forward(self, mel: torch.Tensor) -> torch.Tensor:
        """mel [B, 1, n_mels, frames] -> multi-label logits [B, n_species]"""
        x = self.stages(self.stem(mel))
        return self.head(x.mean(dim=2).amax(dim=2))


def mixup(x, y, lam):
    i = torch.randperm(x.size(0))
    return lam * x + (1 - lam) * x[i], torch.maximum(y, y[i])


if __name__ == "__main__":
    print(BirdNet(10)(torch.randn(2, 1, 64, 80)).shape)
