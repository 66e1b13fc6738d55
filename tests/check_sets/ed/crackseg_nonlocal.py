"""Non-local block used in our road crack segmentation net (between stage 3 and 4).

Input and output are feature maps (B, C, H, W).  Every pixel gathers from a 2x
max-pooled copy of the map:

    y_i = sum_j softmax_j( theta(x_i) . phi(x_j) / sqrt(C') ) g(x_j)
    out = x + BN(W y)

i runs over the H*W pixels, j over the pooled ones.  H and W are even.
"""
import torch
import torch.nn as nn


class NonLocal2d(nn.Module):
    def __init__(self, channels, inner=None):
        super().__init__()
        inner = inner or channels // 2
        self.inner = inner
        self.theta = nn.Conv2d(channels, inner, 1)
        self.phi = nn.Conv2d(channels, inner, 1)
        self.g = nn.Conv2d(channels, inner, 1)
        self.pool = nn.MaxPool2d(2)
        self.w = nn.Conv2d(inner, channels, 1)
        self.bn = nn.BatchNorm2d(channels)

    def forward(self, x):
        b, _, h, w = x.shape
        t = self.theta(x).flatten(2)                 # B C' N
        small = self.pool(x)
        p = self.phi(small).flatten(2)               # B C' M
        g = self.g(small).flatten(2)                 # B C' M
        f = torch.bmm(p.transpose(1, 2), t)          # B M N
        f = torch.softmax(f * self.inner ** -0.5, dim=1)
        y = torch.bmm(g, f).view(b, self.inner, h, w)
        return x + self.bn(self.w(y))


class CrackNet(nn.Module):
    """image (B, 3, H, W) with H, W multiples of 8 -> crack logits (B, 1, H, W)"""

    def __init__(self, c=32):
        super().__init__()
        self.down = nn.Sequential(
            nn.Conv2d(3, c, 3, stride=2, padding=1), nn.ReLU(inplace=True),
            nn.Conv2d(c, 2 * c, 3, stride=2, padding=1), nn.ReLU(inplace=True),
        )
        self.ctx = NonLocal2d(2 * c)
        self.up = nn.Sequential(
            nn.Conv2d(2 * c, c, 3, padding=1), nn.ReLU(inplace=True),
            nn.Upsample(scale_factor=4, mode="bilinear", align_corners=False),
            nn.Conv2d(c, 1, 1),
        )

    def forward(self, img):
        return self.up(self.ctx(self.down(img)))
