"""Non-local block, embedded gaussian version (Wang et al. 2018), with pooled keys.

    y_i = sum_j softmax_j(theta_i . phi_j) g_j ,   z = W y + x
No scaling of the dot product, as in the paper. Images [B, C, H, W], H and W even.
"""
import torch
from torch import nn


class NonLocal2d(nn.Module):
    def __init__(self, ch=16, inner=8, pool=True, zero_init=False):
        super().__init__()
        self.theta = nn.Conv2d(ch, inner, 1)
        self.phi = nn.Conv2d(ch, inner, 1)
        self.g = nn.Conv2d(ch, inner, 1)
        self.W = nn.Sequential(nn.Conv2d(inner, ch, 1), nn.BatchNorm2d(ch))
        self.pool = nn.MaxPool2d(2) if pool else nn.Identity()
        if zero_init:
            nn.init.zeros_(self.W[1].weight)

    def forward(self, x):
        B, _, H, W = x.shape
        th = self.theta(x).flatten(2)                    # B c N
        ph = self.pool(self.phi(x)).flatten(2)           # B c M
        g = self.pool(self.g(x)).flatten(2)              # B c M
        f = torch.bmm(ph.transpose(1, 2), th)            # B M N   (keys down, queries across)
        f = torch.softmax(f, dim=1)
        y = torch.bmm(g, f)                              # B c N
        return x + self.W(y.view(B, -1, H, W))
