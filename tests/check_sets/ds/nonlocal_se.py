"""Bottleneck for the traffic-sign net: a non-local block followed by squeeze-and-excitation."""
import torch
from torch import nn


class SE(nn.Module):
    """Hu et al.: global mean, two 1x1 layers, one sigmoid gate per channel."""

    def __init__(self, ch, r=4):
        super().__init__()
        self.fc = nn.Sequential(nn.Linear(ch, ch // r), nn.ReLU(), nn.Linear(ch // r, ch), nn.Sigmoid())

    def forward(self, x):
        return x * self.fc(x.mean((2, 3)))[:, :, None, None]


class NonLocalSE(nn.Module):
    """x (B, C, H, W) -> (B, C, H, W).

    Non-local part, "embedded Gaussian" of Wang et al. (CVPR 2018, eq. 4): for
    every position i
        y_i = sum_j softmax_j(theta(x_i)^T phi(x_j)) g(x_j)
    over all positions j of the same picture.  The paper has no temperature and
    neither have we.  z = W y + x, and z is then gated by SE.
    """

    def __init__(self, ch):
        super().__init__()
        inner = ch // 2
        self.theta = nn.Conv2d(ch, inner, 1)
        self.phi = nn.Conv2d(ch, inner, 1)
        self.g = nn.Conv2d(ch, inner, 1)
        self.w = nn.Conv2d(inner, ch, 1)
        self.se = SE(ch)

    def forward(self, x):
        B, C, H, W = x.shape
        th = self.theta(x).flatten(2)            # B, c, N
        ph = self.phi(x).flatten(2)
        g = self.g(x).flatten(2)
        f = torch.bmm(th.permute(0, 2, 1), ph)   # B, N(i), N(j)
        f = torch.softmax(f, dim=-1)
        y = torch.bmm(g, f.permute(0, 2, 1))     # B, c, N(i)
        z = self.w(y.view(B, -1, H, W)) + x
        return self.se(z)
