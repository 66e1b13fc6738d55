"""SAGAN generator parts (Zhang et al. 2019) for synthesis of galaxy cut-outs."""
import torch
import torch.nn as nn
from torch.nn.utils import spectral_norm as sn


class SelfAttn2d(nn.Module):
    """beta_{j,i} = softmax_i( f(x_i) . g(x_j) ),   o_j = sum_i beta_{j,i} h(x_i)
    out = gamma * o + x, no scaling of the logits (as in the paper).
    Keys and values come from a 2x2 max-pooled map, like in the official code.
    """

    def __init__(self, ch):
        super().__init__()
        self.theta = sn(nn.Conv2d(ch, ch // 8, 1, bias=False))
        self.phi = sn(nn.Conv2d(ch, ch // 8, 1, bias=False))
        self.g = sn(nn.Conv2d(ch, ch // 2, 1, bias=False))
        self.o = sn(nn.Conv2d(ch // 2, ch, 1, bias=False))
        self.pool = nn.MaxPool2d(2)
        self.gamma = nn.Parameter(torch.zeros(()))

    def forward(self, x):
        b, c, h, w = x.shape
        theta = self.theta(x).flatten(2)                 # b, c/8, hw
        phi = self.pool(self.phi(x)).flatten(2)          # b, c/8, hw/4
        g = self.pool(self.g(x)).flatten(2)              # b, c/2, hw/4
        beta = torch.softmax(theta.transpose(1, 2) @ phi, dim=-1)      # b, hw, hw/4
        o = (g @ beta.transpose(1, 2)).view(b, c // 2, h, w)
        return self.gamma * self.o(o) + x


class CondBN(nn.Module):
    def __init__(self, ch, classes):
        super().__init__()
        self.bn = nn.BatchNorm2d(ch, affine=False)
        self.gain = nn.Embedding(classes, ch)
        self.bias = nn.Embedding(classes, ch)
        nn.init.ones_(self.gain.weight)
        nn.init.zeros_(self.bias.weight)

    def forward(self, x, y):
        return self.gain(y)[..., None, None] * self.bn(x) + self.bias(y)[..., None, None]


class UpBlock(nn.Module):
    def __init__(self, cin, cout, classes):
        super().__init__()
        self.n1, self.n2 = CondBN(cin, classes), CondBN(cout, classes)
        self.c1 = sn(nn.Conv2d(cin, cout, 3, padding=1))
        self.c2 = sn(nn.Conv2d(cout, cout, 3, padding=1))
        self.skip = sn(nn.Conv2d(cin, cout, 1))
        self.up = nn.Upsample(scale_factor=2)

    def forward(self, x, y):
        h = self.c1(self.up(torch.relu(self.n1(x, y))))
        h = self.c2(torch.relu(self.n2(h, y)))
        return h + self.skip(self.up(x))


class GalaxyGenerator(nn.Module):
    def __init__(self, z=128, classes=5, ch=32):
        super().__init__()
        self.first = sn(nn.Linear(z, 8 * ch * 16))
        self.ups = nn.ModuleList([UpBlock(8 * ch, 4 * ch, classes), UpBlock(4 * ch, 2 * ch, classes),
                                  UpBlock(2 * ch, ch, classes)])
        self.att = SelfAttn2d(2 * ch)
        self.rgb = nn.Sequential(nn.BatchNorm2d(ch), nn.ReLU(), sn(nn.Conv2d(ch, 3, 3, padding=1)), nn.Tanh())

    def forward(self, z, y):
        x = self.first(z)
        x = x.view(x.shape[0], -1, 4, 4)
        x = self.ups[1](self.ups[0](x, y), y)
        return self.rgb(self.ups[2](self.att(x), y))
