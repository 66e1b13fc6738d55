"""Axial-attention bottleneck for retinal vessel segmentation (2-D slices, 1 channel in).

Ported from our 2020 TF1 code, which kept keys in front: the similarity tensor here is
``[N, heads, key, query]`` (not query, key), so each *column* is one distribution.
"""
import torch
from torch import nn
import torch.nn.functional as F


class AxialAttention(nn.Module):
    """Self-attention along one image axis, the other axis is folded in the batch.

    With ``positional`` a learned embedding of the offset (query - key) adds a query term and
    a key term to the similarity, and a value term to the output (Axial-DeepLab, eq. 4).
    """

    def __init__(self, channels, heads, span, axis, positional=True):
        super().__init__()
        assert axis in ("height", "width") and channels % heads == 0
        self.heads, self.axis, self.span = heads, axis, span
        self.cv = channels // heads
        self.ck = max(self.cv // 2, 1)
        self.to_qkv = nn.Conv1d(channels, heads * (2 * self.ck + self.cv), 1, bias=False)
        self.positional = positional
        if positional:
            self.rel = nn.Parameter(torch.randn(2 * self.ck + self.cv, 2 * span - 1) * self.cv ** -0.5)
        idx = torch.arange(span)
        self.register_buffer("offset", idx[None, :] - idx[:, None] + span - 1)     # [key, query]

    def forward(self, x):
        n, c, hh, ww = x.shape
        if self.axis == "height":
            x = x.permute(0, 3, 1, 2)          # n, w, c, h
        else:
            x = x.permute(0, 2, 1, 3)          # n, h, c, w
        n1, n2, _, length = x.shape
        assert length == self.span, "slice size and span differ"
        x = x.reshape(n1 * n2, c, length)

        qkv = self.to_qkv(x).reshape(n1 * n2, self.heads, 2 * self.ck + self.cv, length)
        q, k, v = torch.split(qkv, [self.ck, self.ck, self.cv], dim=2)

        sim = torch.einsum("ghci,ghcj->ghji", q, k)
        if self.positional:
            rel = self.rel[:, self.offset]                                   # [2ck+cv, key, query]
            rq, rk, rv = torch.split(rel, [self.ck, self.ck, self.cv], dim=0)
            sim = sim + torch.einsum("ghci,cji->ghji", q, rq) + torch.einsum("ghcj,cji->ghji", k, rk)
        sim = sim * self.ck ** -0.5
        w = F.softmax(sim, dim=2)

        out = torch.einsum("ghji,ghcj->ghci", w, v)
        if self.positional:
            out = out + torch.einsum("ghji,cji->ghci", w, rv)
        out = out.reshape(n1, n2, c, length)
        if self.axis == "height":
            return out.permute(0, 2, 3, 1)
        return out.permute(0, 2, 1, 3)


class AxialBlock(nn.Module):
    def __init__(self, cin, width, heads, size):
        super().__init__()
        self.down = nn.Sequential(nn.Conv2d(cin, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU())
        self.row = AxialAttention(width, heads, size, "height")
        self.col = AxialAttention(width, heads, size, "width")
        self.up = nn.Sequential(nn.BatchNorm2d(width), nn.ReLU(), nn.Conv2d(width, cin, 1, bias=False))

    def forward(self, x):
        return F.relu(x + self.up(self.col(self.row(self.down(x)))))


def conv_bn(cin, cout, stride=1):
    return nn.Sequential(nn.Conv2d(cin, cout, 3, stride, 1, bias=False), nn.BatchNorm2d(cout), nn.ReLU(inplace=True))


class AxialUNet(nn.Module):
    def __init__(self, size=64, base=16, heads=4):
        super().__init__()
        self.e1 = conv_bn(1, base)
        self.e2 = conv_bn(base, base * 2, 2)
        self.e3 = conv_bn(base * 2, base * 4, 2)
        self.mid = nn.Sequential(AxialBlock(base * 4, base * 2, heads, size // 4),
                                 AxialBlock(base * 4, base * 2, heads, size // 4))
        self.d2 = conv_bn(base * 6, base * 2)
        self.d1 = conv_bn(base * 3, base)
        self.head = nn.Conv2d(base, 1, 1)

    def forward(self, x):
        a = self.e1(x)
        b = self.e2(a)
        m = self.mid(self.e3(b))
        m = self.d2(torch.cat([F.interpolate(m, scale_factor=2), b], 1))
        m = self.d1(torch.cat([F.interpolate(m, scale_factor=2), a], 1))
        return torch.sigmoid(self.head(m))
