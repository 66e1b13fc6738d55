"""Self-attention block of SAGAN (Zhang et al. 2019) for the 64x64 galaxy generator.

Queries/keys are C/8 channels, the dot product is NOT scaled (paper, eq. 1), keys and
values are max-pooled 2x2 as in the official TF code to save memory, gamma starts at 0.
"""
import torch, torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils import spectral_norm


class SelfAttn2d(nn.Module):

    def __init__(self, ch, pool=True, sn=False):
        super().__init__()
        wrap = spectral_norm if sn else (lambda m: m)
        self.theta = wrap(nn.Conv2d(ch, ch // 8, 1, bias=False))
        self.phi = wrap(nn.Conv2d(ch, ch // 8, 1, bias=False))
        self.g = wrap(nn.Conv2d(ch, ch // 2, 1, bias=False))
        self.o = wrap(nn.Conv2d(ch // 2, ch, 1, bias=False))
        self.gamma = nn.Parameter(torch.zeros(1))
        self.pool = pool

    def forward(self, x):
        B, C, H, W = x.shape
        theta = self.theta(x).flatten(2)              # B, C/8, HW
        phi, g = self.phi(x), self.g(x)
        if self.pool:
            phi, g = F.max_pool2d(phi, 2), F.max_pool2d(g, 2)
        phi, g = phi.flatten(2), g.flatten(2)         # B, C/8, HW/4 ; B, C/2, HW/4

        # beta[b, k, q]: keys first, so columns sum to one
        beta = F.softmax(torch.bmm(phi.transpose(1, 2), theta), dim=1)
        o = torch.bmm(g, beta).view(B, C // 2, H, W)
        return x + self.gamma * self.o(o)


class GenBlock(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.bn1, self.bn2 = nn.BatchNorm2d(cin), nn.BatchNorm2d(cout)
        self.c1 = nn.Conv2d(cin, cout, 3, padding=1)
        self.c2 = nn.Conv2d(cout, cout, 3, padding=1)
        self.skip = nn.Conv2d(cin, cout, 1)

    def forward(self, x):
        up = lambda t: F.interpolate(t, scale_factor=2)
        h = self.c1(up(F.relu(self.bn1(x))))
        h = self.c2(F.relu(self.bn2(h)))
        return h + self.skip(up(x))


class Generator(nn.Module):
    def __init__(self, z=64, ch=64):
        super().__init__()
        self.fc = nn.Linear(z, 4 * 4 * ch)
        self.b1, self.b2 = GenBlock(ch, ch), GenBlock(ch, ch)
        self.attn = SelfAttn2d(ch)
        self.b3, self.b4 = GenBlock(ch, ch // 2), GenBlock(ch // 2, ch // 4)
        self.rgb = nn.Conv2d(ch // 4, 3, 3, padding=1)

    def forward(self, z):
        h = self.fc(z).view(len(z), -1, 4, 4)
        h = self.attn(self.b2(self.b1(h)))
        return torch.tanh(self.rgb(self.b4(self.b3(h))))
