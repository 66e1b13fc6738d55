"""Self-attention GAN for anime faces.  f, g, h as named in the SAGAN paper:
    s_ij = f(x_i)^T g(x_j)   (no temperature in the paper)
    beta_ji = softmax_i(s_ij):  how much position j looks at position i
    o_j = sum_i beta_ji h(x_i),   y = gamma * W_v o + x
"""
import torch
import torch.nn as nn
from torch.nn.utils.parametrizations import spectral_norm as SN


class Self_Attn(nn.Module):
    """ Self attention Layer"""

    def __init__(self, in_dim, k=8):
        super(Self_Attn, self).__init__()
        self.chanel_in = in_dim
        self.f = nn.Conv2d(in_dim, in_dim // k, kernel_size=1)
        self.g = nn.Conv2d(in_dim, in_dim // k, kernel_size=1)
        self.h = nn.Conv2d(in_dim, in_dim // 2, kernel_size=1)
        self.v = nn.Conv2d(in_dim // 2, in_dim, kernel_size=1)
        self.gamma = nn.Parameter(torch.zeros(1))
        self.softmax = nn.Softmax(dim=1)

    def forward(self, x):
        """
            inputs :  x : input feature maps( B X C X W X H)
            returns : out : self attention value + input feature
                      attention: B X N X N, attention[b, i, j] = beta_ji (sums to one over i)
        """
        B, C, W, H = x.size()
        N = W * H
        f = self.f(x).view(B, -1, N)
        g = self.g(x).view(B, -1, N)
        h = self.h(x).view(B, -1, N)
        s = torch.bmm(f.permute(0, 2, 1), g)      # B, i, j
        beta = self.softmax(s)                    # over i
        o = torch.bmm(h, beta).view(B, -1, W, H)  # sum_i h[:, i] beta[i, j]
        return self.gamma * self.v(o) + x, beta


class Generator(nn.Module):
    def __init__(self, z=32, ch=16):
        super().__init__()
        up = lambda i, o: nn.Sequential(SN(nn.ConvTranspose2d(i, o, 4, 2, 1)), nn.BatchNorm2d(o), nn.ReLU())
        self.l1 = nn.Sequential(SN(nn.ConvTranspose2d(z, ch * 4, 4)), nn.BatchNorm2d(ch * 4), nn.ReLU())
        self.l2, self.l3 = up(ch * 4, ch * 2), up(ch * 2, ch)
        self.attn = Self_Attn(ch * 2)
        self.last = nn.Sequential(nn.ConvTranspose2d(ch, 3, 4, 2, 1), nn.Tanh())

    def forward(self, z):
        x = self.l2(self.l1(z.view(*z.shape, 1, 1)))
        x, p = self.attn(x)
        return self.last(self.l3(x)), p


class Discriminator(nn.Module):
    def __init__(self, ch=16):
        super().__init__()
        dn = lambda i, o: nn.Sequential(SN(nn.Conv2d(i, o, 4, 2, 1)), nn.LeakyReLU(0.1))
        self.a, self.b = dn(3, ch), dn(ch, ch * 2)
        self.attn = Self_Attn(ch * 2)
        self.last = nn.Conv2d(ch * 2, 1, 8)

    def forward(self, x):
        x, p = self.attn(self.b(self.a(x)))
        return self.last(x).flatten(), p


if __name__ == "__main__":
    img, _ = Generator()(torch.randn(2, 32))
    print(img.shape, Discriminator()(img)[0].shape)
