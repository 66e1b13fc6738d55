"""Non-local block, embedded Gaussian version (Wang et al., CVPR 2018, eq. 4), with the
sub-sampling trick: phi and g are max-pooled by two, so there are a quarter as many keys.

f(x_i, x_j) = exp(theta(x_i)^T phi(x_j)), C(x) = sum_j f   i.e. a softmax over j
(the paper has no temperature, neither have we).
z = W_z y + x; W_z starts at zero, so a fresh block is the identity.

input / output [N, C, H, W], H and W even.
"""
import torch
import torch.nn as nn


class NonLocal2d(nn.Module):

    def __init__(self, in_channels, inter_channels=None, sub_sample=True):
        super(NonLocal2d, self).__init__()
        self.inter = inter_channels or max(in_channels // 2, 1)
        self.theta = nn.Conv2d(in_channels, self.inter, kernel_size=1)
        self.phi = nn.Conv2d(in_channels, self.inter, kernel_size=1)
        self.g = nn.Conv2d(in_channels, self.inter, kernel_size=1)
        self.W_z = nn.Conv2d(self.inter, in_channels, kernel_size=1)
        nn.init.constant_(self.W_z.weight, 0)
        nn.init.constant_(self.W_z.bias, 0)
        self.pool = nn.MaxPool2d(2) if sub_sample else nn.Identity()

    def forward(self, x):
        N, C, H, W = x.size()

        theta_x = self.theta(x).view(N, self.inter, -1)          # N, C', HW
        phi_x = self.pool(self.phi(x)).view(N, self.inter, -1)   # N, C', HW/4
        g_x = self.pool(self.g(x)).view(N, self.inter, -1)       # N, C', HW/4

        # keys first: pairwise[n, j, i] belongs to key j and pixel i
        pairwise = torch.bmm(phi_x.transpose(1, 2), theta_x)     # N, HW/4, HW
        pairwise = pairwise.softmax(dim=1)
        y = torch.bmm(g_x, pairwise)                             # N, C', HW

        return self.W_z(y.view(N, self.inter, H, W)) + x
