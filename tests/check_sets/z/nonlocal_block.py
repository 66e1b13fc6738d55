import torch
import torch.nn as nn


class NONLocalBlock(nn.Module):
    """Non-local block, embedded Gaussian version (Wang et al., CVPR 2018, eq. 4):
    y = softmax(theta(x)^T phi(x)) g(x), z = W y + x.  The paper uses no 1/sqrt(d) factor.

    Works on (N, C, L), (N, C, H, W) and (N, C, T, H, W).  W starts at zero (through its
    batch norm) so the block is the identity at the beginning of training.
    """

    def __init__(self, in_channels, inter_channels=None, dimension=2, sub_sample=False, bn_layer=True):
        super().__init__()
        assert dimension in (1, 2, 3)
        self.inter_channels = inter_channels or max(in_channels // 2, 1)
        conv = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}[dimension]
        bn = {1: nn.BatchNorm1d, 2: nn.BatchNorm2d, 3: nn.BatchNorm3d}[dimension]
        pool = {
            1: lambda: nn.MaxPool1d(2),
            2: lambda: nn.MaxPool2d((2, 2)),
            3: lambda: nn.MaxPool3d((1, 2, 2)),
        }[dimension]

        self.g = conv(in_channels, self.inter_channels, 1)
        self.theta = conv(in_channels, self.inter_channels, 1)
        self.phi = conv(in_channels, self.inter_channels, 1)
        if bn_layer:
            self.W = nn.Sequential(conv(self.inter_channels, in_channels, 1), bn(in_channels))
            nn.init.zeros_(self.W[1].weight)
            nn.init.zeros_(self.W[1].bias)
        else:
            self.W = conv(self.inter_channels, in_channels, 1)
            nn.init.zeros_(self.W.weight)
            nn.init.zeros_(self.W.bias)
        if sub_sample:
            self.g = nn.Sequential(self.g, pool())
            self.phi = nn.Sequential(self.phi, pool())

    def forward(self, x, return_nl_map=False):
        batch_size = x.size(0)
        g_x = self.g(x).view(batch_size, self.inter_channels, -1).permute(0, 2, 1)
        theta_x = self.theta(x).view(batch_size, self.inter_channels, -1).permute(0, 2, 1)
        phi_x = self.phi(x).view(batch_size, self.inter_channels, -1)

        f = torch.matmul(theta_x, phi_x)
        f_div_C = f.softmax(dim=-1)

        y = torch.matmul(f_div_C, g_x)
        y = y.permute(0, 2, 1).contiguous().view(batch_size, self.inter_channels, *x.size()[2:])
        z = self.W(y) + x
        if return_nl_map:
            return z, f_div_C
        return z
