"""3D U-Net bottleneck with a non-local block for CT organ segmentation.

Non-local Neural Networks (Wang et al., CVPR 2018), embedded Gaussian version,
eq. (3): f(x_i, x_j) = exp(theta(x_i)^T phi(x_j)) -- as in the paper there is no
1/sqrt(d) in the exponent.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


def conv_block(i, o):
    return nn.Sequential(
        nn.Conv3d(i, o, 3, padding=1, bias=False), nn.InstanceNorm3d(o, affine=True), nn.LeakyReLU(0.01),
        nn.Conv3d(o, o, 3, padding=1, bias=False), nn.InstanceNorm3d(o, affine=True), nn.LeakyReLU(0.01))


class NonLocal3D(nn.Module):
    def __init__(self, channels, inter=None, sub_sample=True):
        super().__init__()
        self.inter = inter or max(channels // 2, 1)
        self.theta = nn.Conv3d(channels, self.inter, 1)
        self.phi = nn.Conv3d(channels, self.inter, 1)
        self.g = nn.Conv3d(channels, self.inter, 1)
        self.pool = nn.MaxPool3d((1, 2, 2)) if sub_sample else nn.Identity()
        self.W = nn.Conv3d(self.inter, channels, 1)
        nn.init.zeros_(self.W.weight)
        nn.init.zeros_(self.W.bias)

    def forward(self, x):
        """x: (b, c, d, h, w)"""
        b = x.size(0)
        theta = self.theta(x).flatten(2)                    # b, c', N
        phi = self.pool(self.phi(x)).flatten(2)             # b, c', M
        g = self.pool(self.g(x)).flatten(2).transpose(1, 2)  # b, M, c'
        f = torch.matmul(theta.transpose(1, 2), phi)        # b, N, M
        y = torch.matmul(F.softmax(f, dim=-1), g)           # b, N, c'
        y = y.transpose(1, 2).reshape(b, self.inter, *x.shape[2:])
        return x + self.W(y)


class UNet3D(nn.Module):
    def __init__(self, in_ch=1, n_cls=4, base=8):
        super().__init__()
        self.d1 = conv_block(in_ch, base)
        self.d2 = conv_block(base, base * 2)
        self.mid = conv_block(base * 2, base * 4)
        self.nl = NonLocal3D(base * 4)
        self.u2 = nn.ConvTranspose3d(base * 4, base * 2, 2, 2)
        self.c2 = conv_block(base * 4, base * 2)
        self.u1 = nn.ConvTranspose3d(base * 2, base, 2, 2)
        self.c1 = conv_block(base * 2, base)
        self.out = nn.Conv3d(base, n_cls, 1)

    def forward(self, x):
        a = self.d1(x)
        b = self.d2(F.max_pool3d(a, 2))
        m = self.nl(self.mid(F.max_pool3d(b, 2)))
        y = self.c2(torch.cat([self.u2(m), b], 1))
        return self.out(self.c1(torch.cat([self.u1(y), a], 1)))


def soft_dice(logits, target, eps=1e-5):
    p = logits.softmax(1)
    t = F.one_hot(target, p.size(1)).movedim(-1, 1).to(p.dtype)
    dims = (0, 2, 3, 4)
    return 1 - ((2 * (p * t).sum(dims) + eps) / ((p + t).sum(dims) + eps)).mean()
