"""Land-cover segmentation: U-Net bottleneck with a non-local block.

The non-local block (embedded Gaussian version) lets each pixel of the coarse map
gather features from every other pixel: y_i = sum_j softmax_j(theta_i . phi_j) g_j.
As in the original paper there is no 1/sqrt(d) factor, and the last convolution
starts from small weights so the block is close to the identity at first.
"""
import torch
from torch import nn


class NonLocal2d(nn.Module):
    def __init__(self, channels, inner=None):
        super().__init__()
        inner = inner or channels // 2
        self.theta = nn.Conv2d(channels, inner, 1)
        self.phi = nn.Conv2d(channels, inner, 1)
        self.g = nn.Conv2d(channels, inner, 1)
        self.out = nn.Conv2d(inner, channels, 1)
        nn.init.normal_(self.out.weight, std=0.05)

    def forward(self, x):
        n, _, h, w = x.shape
        theta = self.theta(x).flatten(2).transpose(1, 2)  # n, hw, c
        phi = self.phi(x).flatten(2)                      # n, c, hw
        g = self.g(x).flatten(2).transpose(1, 2)          # n, hw, c
        affinity = torch.bmm(theta, phi).softmax(dim=1)
        y = torch.bmm(affinity, g)
        y = y.transpose(1, 2).reshape(n, -1, h, w)
        return x + self.out(y)


def conv_block(i, o):
    return nn.Sequential(
        nn.Conv2d(i, o, 3, padding=1, bias=False), nn.GroupNorm(4, o), nn.ReLU(inplace=True)
    )


class LandCoverNet(nn.Module):
    """[B, bands, H, W] -> class logits [B, classes, H, W]; H, W multiples of 4."""

    def __init__(self, bands=6, classes=8, base=16):
        super().__init__()
        self.d1 = conv_block(bands, base)
        self.d2 = conv_block(base, 2 * base)
        self.mid = nn.Sequential(conv_block(2 * base, 4 * base), NonLocal2d(4 * base))
        self.u2 = conv_block(6 * base, 2 * base)
        self.u1 = conv_block(3 * base, base)
        self.head = nn.Conv2d(base, classes, 1)
        self.pool = nn.MaxPool2d(2)
        self.up = nn.Upsample(scale_factor=2, mode="nearest")

    def forward(self, x):
        a = self.d1(x)
        b = self.d2(self.pool(a))
        c = self.mid(self.pool(b))
        b = self.u2(torch.cat([self.up(c), b], 1))
        a = self.u1(torch.cat([self.up(b), a], 1))
        return self.head(a)
