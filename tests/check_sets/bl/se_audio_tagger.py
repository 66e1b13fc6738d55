"""Bird call tagging (Kaggle).  CNN14-like trunk with attention on the channels."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class CFG:
    n_mels = 64
    n_classes = 24
    width = 16
    reduction = 4
    drop = 0.2


class ChannelAttention(nn.Module):
    """Channel attention: weights in (0, 1), one per channel, from the pooled log-mel map.

    Average and max pooled descriptors share one small MLP.
    """

    def __init__(self, channels, reduction=CFG.reduction):
        super().__init__()
        self.query = nn.AdaptiveAvgPool2d(1)
        self.key = nn.AdaptiveMaxPool2d(1)
        self.mlp = nn.Sequential(
            nn.Conv2d(channels, channels // reduction, 1, bias=False),
            nn.ReLU(inplace=True),
            nn.Conv2d(channels // reduction, channels, 1, bias=False),
        )

    def forward(self, x):
        score = self.mlp(self.query(x)) + self.mlp(self.key(x))
        attn = torch.sigmoid(score)
        return x * attn


class ConvBlock(nn.Module):
    def __init__(self, c_in, c_out):
        super().__init__()
        self.conv1 = nn.Conv2d(c_in, c_out, 3, padding=1, bias=False)
        self.conv2 = nn.Conv2d(c_out, c_out, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(c_out)
        self.bn2 = nn.BatchNorm2d(c_out)
        self.attn = ChannelAttention(c_out)

    def forward(self, x):
        x = F.relu_(self.bn1(self.conv1(x)))
        x = F.relu_(self.bn2(self.conv2(x)))
        return F.avg_pool2d(self.attn(x), 2)


class BirdNet(nn.Module):
    def __init__(self, cfg=CFG):
        super().__init__()
        w = cfg.width
        self.bn0 = nn.BatchNorm2d(cfg.n_mels)
        self.blocks = nn.Sequential(ConvBlock(1, w), ConvBlock(w, 2 * w), ConvBlock(2 * w, 4 * w))
        self.drop = nn.Dropout(cfg.drop)
        self.fc = nn.Linear(4 * w, cfg.n_classes)

    def forward(self, logmel):
        """logmel (batch, 1, frames, n_mels)"""
        x = self.bn0(logmel.transpose(1, 3)).transpose(1, 3)
        x = self.blocks(x)
        x = x.mean(dim=3)
        x = x.max(dim=2).values + x.mean(dim=2)
        return torch.sigmoid(self.fc(self.drop(x)))


def mixup(x, y, lam):
    perm = torch.randperm(x.size(0))
    return lam * x + (1 - lam) * x[perm], lam * y + (1 - lam) * y[perm]


if __name__ == "__main__":
    net = BirdNet().eval()
    print(net(torch.randn(2, 1, 96, CFG.n_mels)).shape)
