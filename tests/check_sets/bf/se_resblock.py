"""Channel attention (squeeze-and-excite) residual block for chest X-rays."""
import torch
import torch.nn as nn


class ChannelAttention(nn.Module):
    """Scales every feature map by a gate in (0, 1) computed from the global means.

    Hu et al. 2018; query/key/value do not occur.
    """

    def __init__(self, channels, reduction=4):
        super().__init__()
        hidden = max(channels // reduction, 2)
        self.query = nn.Linear(channels, hidden)
        self.value = nn.Linear(hidden, channels)

    def forward(self, x):
        b, c = x.shape[:2]
        pooled = x.flatten(2).mean(-1)
        gate = torch.sigmoid(self.value(torch.relu(self.query(pooled))))
        return x * gate.view(b, c, 1, 1)


class SEBlock(nn.Module):
    def __init__(self, c_in, c_out, stride=1):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(c_in, c_out, 3, stride, 1, bias=False),
            nn.BatchNorm2d(c_out),
            nn.ReLU(inplace=True),
            nn.Conv2d(c_out, c_out, 3, 1, 1, bias=False),
            nn.BatchNorm2d(c_out),
        )
        self.att = ChannelAttention(c_out)
        self.skip = nn.Identity() if c_in == c_out and stride == 1 else nn.Conv2d(c_in, c_out, 1, stride)

    def forward(self, x):
        return torch.relu(self.att(self.body(x)) + self.skip(x))


class XRayNet(nn.Module):
    def __init__(self, n_findings=14):
        super().__init__()
        self.net = nn.Sequential(SEBlock(1, 8, 2), SEBlock(8, 16, 2), SEBlock(16, 16))
        self.head = nn.Linear(16, n_findings)

    def forward(self, x):
        return self.head(self.net(x).mean((2, 3)))


if __name__ == "__main__":
    print(XRayNet()(torch.randn(2, 1, 32, 32)).shape)
