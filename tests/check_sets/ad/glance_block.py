"""Spatial attention for the 32x32 stage of the generator (reimplementation, BigGAN flavour)."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.parametrizations import spectral_norm


def snconv1x1(cin, cout):
    return spectral_norm(nn.Conv2d(cin, cout, kernel_size=1, bias=False))


class GlanceBlock(nn.Module):
    """
    theta : where I am   -> (b, i, n)
    phi   : where I look -> (b, i, m)      m = n / 4, pooled
    g     : what I take  -> (b, c/2, m)

    Input (b, ch, h, w) with h, w >= 2. Output has the same shape.
    """

    def __init__(self, ch, squeeze=8):
        super().__init__()
        inner = max(ch // squeeze, 1)
        self.theta = snconv1x1(ch, inner)
        self.phi = snconv1x1(ch, inner)
        self.g = snconv1x1(ch, ch // 2)
        self.o = snconv1x1(ch // 2, ch)
        # half of the temperature on each side keeps the product small in amp
        self.quarter = inner ** -0.25
        self.gamma = nn.Parameter(torch.zeros(()))

    def forward(self, x):
        b, ch, h, w = x.shape
        theta = self.theta(x).flatten(2) * self.quarter
        phi = F.max_pool2d(self.phi(x), 2).flatten(2) * self.quarter
        g = F.max_pool2d(self.g(x), 2).flatten(2)

        # (b, m, n): every column belongs to one location of x
        beta = torch.bmm(phi.transpose(1, 2), theta)
        beta = F.softmax(beta, dim=1)

        o = torch.bmm(g, beta).view(b, ch // 2, h, w)
        return x + self.gamma * self.o(o)


if __name__ == "__main__":
    net = GlanceBlock(64)
    print(net(torch.randn(2, 64, 16, 16)).shape)
