import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils import spectral_norm


def snconv1x1(cin, cout):
    return spectral_norm(nn.Conv2d(cin, cout, kernel_size=1, bias=False))


class Self_Attn(nn.Module):
    """ Self attention Layer of SAGAN.

    s_ij = f(x_i)^T g(x_j)
    beta_{j,i} = exp(s_ij) / sum_i exp(s_ij)      extent to which location i is used for location j
    o_j = v( sum_i beta_{j,i} h(x_i) )
    y = gamma * o + x

    Keys and values are max-pooled 2x2 first, as in the released code.  The paper has no temperature.
    """

    def __init__(self, in_dim):
        super(Self_Attn, self).__init__()
        self.in_dim = in_dim
        self.f = snconv1x1(in_dim, in_dim // 8)     # key
        self.g = snconv1x1(in_dim, in_dim // 8)     # query
        self.h = snconv1x1(in_dim, in_dim // 2)     # value
        self.v = snconv1x1(in_dim // 2, in_dim)
        self.pool = nn.MaxPool2d(2, stride=2)
        self.gamma = nn.Parameter(torch.zeros(1))

    def forward(self, x, return_map=False):
        B, C, H, W = x.size()
        f = self.pool(self.f(x)).flatten(2)                    # B, C/8, M
        g = self.g(x).flatten(2)                               # B, C/8, N
        h = self.pool(self.h(x)).flatten(2)                    # B, C/2, M

        s = torch.bmm(f.transpose(1, 2), g)                    # B, M, N
        beta = F.softmax(s, dim=1)
        o = torch.bmm(h, beta)                                 # B, C/2, N
        o = self.v(o.view(B, C // 2, H, W))
        out = self.gamma * o + x
        if return_map:
            return out, beta.transpose(1, 2)
        return out


class UpBlock(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.bn1, self.bn2 = nn.BatchNorm2d(cin), nn.BatchNorm2d(cout)
        self.c1 = spectral_norm(nn.Conv2d(cin, cout, 3, padding=1))
        self.c2 = spectral_norm(nn.Conv2d(cout, cout, 3, padding=1))
        self.sc = snconv1x1(cin, cout)

    def forward(self, x):
        up = F.interpolate(x, scale_factor=2)
        y = self.c1(F.interpolate(F.relu(self.bn1(x)), scale_factor=2))
        y = self.c2(F.relu(self.bn2(y)))
        return y + self.sc(up)


class Generator(nn.Module):
    def __init__(self, z=32, ch=16):
        super().__init__()
        self.fc = spectral_norm(nn.Linear(z, 4 * 4 * ch * 4))
        self.b1 = UpBlock(ch * 4, ch * 2)
        self.att = Self_Attn(ch * 2)
        self.b2 = UpBlock(ch * 2, ch)
        self.rgb = nn.Conv2d(ch, 3, 3, padding=1)
        self.ch = ch

    def forward(self, z):
        x = self.fc(z).view(z.size(0), self.ch * 4, 4, 4)
        x = self.b2(self.att(self.b1(x)))
        return torch.tanh(self.rgb(F.relu(x)))
