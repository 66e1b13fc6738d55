import torch
from torch import nn
from torch.nn import functional as F


class NonLocalBlock2D(nn.Module):
    """Non-local block, embedded Gaussian version (Wang et al. 2018): softmax(theta(x)^T phi(x)) g(x), without scaling."""

    def __init__(self, in_channels, inter_channels):
        super().__init__()
        self.inter_channels = inter_channels
        self.g = nn.Conv2d(in_channels, inter_channels, 1)
        self.theta = nn.Conv2d(in_channels, inter_channels, 1)
        self.phi = nn.Conv2d(in_channels, inter_channels, 1)
        self.W = nn.Conv2d(inter_channels, in_channels, 1)

    def forward(self, x):
        batch_size = x.size(0)
        g_x = self.g(x).view(batch_size, self.inter_channels, -1).permute(0, 2, 1)
        theta_x = self.theta(x).view(batch_size, self.inter_channels, -1).permute(0, 2, 1)
        phi_x = self.phi(x).view(batch_size, self.inter_channels, -1)
        f = torch.matmul(theta_x, phi_x)
        f_div_C = F.softmax(f, dim=-1)
        y = torch.matmul(f_div_C, g_x)
        y = y.permute(0, 2, 1).contiguous().view(batch_size, self.inter_channels, *x.size()[2:])
        return self.W(y) + x
