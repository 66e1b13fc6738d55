import torch
import torch.nn as nn


class ChannelSpatialAttention(nn.Module):
    """CBAM: channel gate, then spatial gate, for leaf disease photos. (B, C, H, W) -> the same.

    Both "attentions" are sigmoid gates on the feature map; there are no queries and keys.
    """

    def __init__(self, C=16, reduction=4, kernel=7):
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(C, C // reduction), nn.ReLU(), nn.Linear(C // reduction, C))
        self.conv = nn.Conv2d(2, 1, kernel, padding=kernel // 2, bias=False)

    def channel(self, x):
        avg, mx = x.mean((2, 3)), x.amax((2, 3))
        return torch.sigmoid(self.mlp(avg) + self.mlp(mx))[:, :, None, None]

    def spatial(self, x):
        s = torch.stack([x.mean(1), x.amax(1)], 1)
        return torch.sigmoid(self.conv(s))

    def forward(self, x):
        x = x * self.channel(x)
        return x * self.spatial(x)
