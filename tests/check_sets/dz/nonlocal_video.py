"""Non-local block for video features (Wang et al. 2018), embedded-Gaussian version.

    x  (B, C, T, H, W)  ->  (B, C, T, H, W)

    f(x_i, x_j) = exp( theta(x_i) . phi(x_j) )          (no temperature, as in the paper)
    y_i = sum_j f(x_i, x_j) g(x_j) / sum_j f(x_i, x_j)
    z_i = x_i + W y_i

i runs over all T*H*W positions; j runs over the positions left after a 1x2x2 max-pooling of
phi(x) and g(x) (the paper's sub-sampling trick), when sub_sample=True.
"""
import torch
from torch import nn


class NLBlock3D(nn.Module):
    def __init__(self, in_channels, inter_channels=None, sub_sample=True):
        super().__init__()
        mid = inter_channels or max(in_channels // 2, 1)
        self.theta = nn.Conv3d(in_channels, mid, 1)
        self.phi = nn.Conv3d(in_channels, mid, 1)
        self.g = nn.Conv3d(in_channels, mid, 1)
        self.W = nn.Conv3d(mid, in_channels, 1)
        self.pool = nn.MaxPool3d((1, 2, 2)) if sub_sample else nn.Identity()

    def forward(self, x):
        b, c, t, h, w = x.shape
        theta = self.theta(x).flatten(2)                 # b, mid, thw
        phi = self.pool(self.phi(x)).flatten(2)          # b, mid, s
        g = self.pool(self.g(x)).flatten(2)              # b, mid, s

        f = torch.bmm(phi.transpose(1, 2), theta)        # b, s, thw
        f = f.softmax(dim=1)
        y = torch.bmm(g, f)                              # b, mid, thw
        return x + self.W(y.view(b, -1, t, h, w))
