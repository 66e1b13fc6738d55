## Restormer: Efficient Transformer for High-Resolution Image Restoration
## multi-Dconv head transposed attention (MDTA) and GDFN
import torch
import torch.nn as nn
import torch.nn.functional as F


class ChannelStir(nn.Module):
    """Attention across channels, not pixels: the map is (c/head x c/head). Rows of q and k are
    L2-normalised along the pixels, a learned temperature per head replaces the fixed scale."""

    def __init__(self, dim=24, heads=3, bias=False):
        super().__init__()
        self.heads = heads
        self.heat = nn.Parameter(torch.ones(heads, 1, 1))
        self.trio = nn.Conv2d(dim, dim * 3, kernel_size=1, bias=bias)
        self.trio_dw = nn.Conv2d(dim * 3, dim * 3, 3, padding=1, groups=dim * 3, bias=bias)
        self.tail = nn.Conv2d(dim, dim, kernel_size=1, bias=bias)

    def forward(self, img):
        b, c, h, w = img.shape
        asker, asked, goods = self.trio_dw(self.trio(img)).chunk(3, dim=1)
        asker = F.normalize(asker.reshape(b, self.heads, c // self.heads, h * w), dim=-1)
        asked = F.normalize(asked.reshape(b, self.heads, c // self.heads, h * w), dim=-1)
        goods = goods.reshape(b, self.heads, c // self.heads, h * w)

        table = (asker @ asked.transpose(-2, -1)) * self.heat
        table = table.softmax(dim=-1)
        mixed = (table @ goods).reshape(b, c, h, w)
        return self.tail(mixed)


class GDFN(nn.Module):
    def __init__(self, dim=24, expansion=2.0, bias=False):
        super().__init__()
        hid = int(dim * expansion)
        self.inp = nn.Conv2d(dim, hid * 2, 1, bias=bias)
        self.dw = nn.Conv2d(hid * 2, hid * 2, 3, padding=1, groups=hid * 2, bias=bias)
        self.out = nn.Conv2d(hid, dim, 1, bias=bias)

    def forward(self, x):
        a, b = self.dw(self.inp(x)).chunk(2, dim=1)
        return self.out(F.gelu(a) * b)


class RestormerBlock(nn.Module):
    def __init__(self, dim=24, heads=3):
        super().__init__()
        self.n1, self.n2 = nn.GroupNorm(1, dim), nn.GroupNorm(1, dim)
        self.stir, self.ffn = ChannelStir(dim, heads), GDFN(dim)

    def forward(self, x):
        x = x + self.stir(self.n1(x))
        return x + self.ffn(self.n2(x))
