import torch
from torch import nn


class NonLocalBlock(nn.Module):
    """Embedded-Gaussian non-local block with the scale of "Attention is all you need".  x: (b, c, h, w)

        y_i = sum_j softmax_j(theta(x_i) . phi(x_j) / sqrt(inter)) g(x_j),    z = W y + x
    """

    def __init__(self, in_channels, inter=6):
        super().__init__()
        self.inter = inter
        self.theta = nn.Conv2d(in_channels, inter, 1)
        self.phi = nn.Conv2d(in_channels, inter, 1)
        self.g = nn.Conv2d(in_channels, inter, 1)
        self.W = nn.Conv2d(inter, in_channels, 1)
        self.bn = nn.BatchNorm2d(in_channels)

    def forward(self, x):
        b, _, h, w = x.shape
        g_x = self.g(x).view(b, self.inter, -1).permute(0, 2, 1)
        theta_x = self.theta(x).view(b, self.inter, -1).permute(0, 2, 1)
        phi_x = self.phi(x).view(b, self.inter, -1)

        f = torch.matmul(theta_x, phi_x)
        f_div = torch.softmax(f / self.inter, dim=1)
        y = torch.matmul(f_div, g_x).permute(0, 2, 1).contiguous().view(b, self.inter, h, w)
        return self.bn(self.W(y)) + x
