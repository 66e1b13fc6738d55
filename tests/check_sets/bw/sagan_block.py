"""Self-Attention GAN (Zhang et al. 2019): the attention block and a small discriminator.

o_j = sum_i beta_{j,i} h(x_i), where beta_{j,i} says how much the model attends to
location i when it synthesises location j; y = gamma * o + x. Keys and values are
max-pooled by 2 as in the authors' TF code. No scale (dot product, as in the paper).
"""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.parametrizations import spectral_norm


def snconv(i, o, k=1, s=1, p=0):
    return spectral_norm(nn.Conv2d(i, o, k, s, p))


class SelfAttn2d(nn.Module):
    def __init__(self, ch=32, gamma=1.0):
        super().__init__()
        self.theta = nn.Conv2d(ch, ch // 8, 1, bias=False)
        self.phi = nn.Conv2d(ch, ch // 8, 1, bias=False)
        self.g = nn.Conv2d(ch, ch // 2, 1, bias=False)
        self.o = nn.Conv2d(ch // 2, ch, 1, bias=False)
        self.gamma = nn.Parameter(torch.tensor(float(gamma)))

    def forward(self, x):
        b, c, h, w = x.shape
        theta = self.theta(x).view(b, c // 8, h * w)
        phi = F.max_pool2d(self.phi(x), 2).view(b, c // 8, h * w // 4)
        g = F.max_pool2d(self.g(x), 2).view(b, c // 2, h * w // 4)

        energy = torch.bmm(theta.transpose(1, 2), phi)      # b, hw, hw/4
        beta = F.softmax(energy, dim=1)
        o = torch.bmm(g, beta.transpose(1, 2)).view(b, c // 2, h, w)
        return self.gamma * self.o(o) + x


class DBlock(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.c1 = snconv(i, o, 3, 1, 1)
        self.c2 = snconv(o, o, 3, 1, 1)
        self.sc = snconv(i, o)

    def forward(self, x):
        y = self.c2(F.relu(self.c1(F.relu(x))))
        return F.avg_pool2d(y, 2) + self.sc(F.avg_pool2d(x, 2))


class Discriminator(nn.Module):
    def __init__(self, ch=16, classes=10):
        super().__init__()
        self.b1 = DBlock(3, ch)
        self.attn = SelfAttn2d(ch, gamma=0.0)
        self.b2 = DBlock(ch, 2 * ch)
        self.lin = spectral_norm(nn.Linear(2 * ch, 1))
        self.emb = spectral_norm(nn.Embedding(classes, 2 * ch))

    def forward(self, x, y):
        x = self.b2(self.attn(self.b1(x)))
        x = F.relu(x).sum((2, 3))
        return self.lin(x).squeeze(1) + (self.emb(y) * x).sum(1)


if __name__ == "__main__":
    d = Discriminator()
    print(d(torch.randn(2, 3, 32, 32), torch.tensor([1, 7])))
