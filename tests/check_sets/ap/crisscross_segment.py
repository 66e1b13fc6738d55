"""Road segmentation from aerial tiles: rows and columns are read one after another
(axial attention) in the bottleneck of a small U-net."""
import torch
import torch.nn as nn


class LineRead(nn.Module):
    """Scaled dot-product self-attention along one axis of a feature map.

    x: [B, C, H, W]; dim is "h" or "w".
    cloud_free: [B, H, W], 1 = usable pixel, 0 = under clouds. Pixels under clouds must not
    be read (they may read).
    """

    def __init__(self, ch, heads, dim):
        super().__init__()
        assert dim in ("h", "w") and ch % heads == 0
        self.heads, self.dim = heads, dim
        self.q = nn.Conv2d(ch, ch, 1, bias=False)
        self.k = nn.Conv2d(ch, ch, 1, bias=False)
        self.v = nn.Conv2d(ch, ch, 1)
        self.gamma = nn.Parameter(torch.ones(1))

    def _lines(self, t):
        """-> [B * lines, heads, length, c]"""
        B, C, H, W = t.shape
        t = t.view(B, self.heads, C // self.heads, H, W)
        if self.dim == "w":
            return t.permute(0, 3, 1, 4, 2).flatten(0, 1)
        return t.permute(0, 4, 1, 3, 2).flatten(0, 1)

    def forward(self, x, cloud_free=None):
        B, C, H, W = x.shape
        q, k, v = self._lines(self.q(x)), self._lines(self.k(x)), self._lines(self.v(x))
        length = q.size(2)
        att = torch.matmul(q, k.transpose(2, 3)) / (length ** 0.5)
        if cloud_free is not None:
            m = cloud_free if self.dim == "w" else cloud_free.transpose(1, 2)
            m = m.reshape(-1, 1, 1, length).to(att.dtype)
            att = att * m
        att = att.softmax(3)
        out = torch.matmul(att, v)
        if self.dim == "w":
            out = out.view(B, H, self.heads, W, -1).permute(0, 2, 4, 1, 3)
        else:
            out = out.view(B, W, self.heads, H, -1).permute(0, 2, 4, 3, 1)
        return x + self.gamma * out.reshape(B, C, H, W)


class CrissCross(nn.Module):
    def __init__(self, ch, heads=4):
        super().__init__()
        self.rows, self.cols = LineRead(ch, heads, "w"), LineRead(ch, heads, "h")
        self.bn = nn.BatchNorm2d(ch)

    def forward(self, x, cloud_free=None):
        return self.bn(self.cols(self.rows(x, cloud_free), cloud_free))


def double_conv(i, o):
    return nn.Sequential(
        nn.Conv2d(i, o, 3, padding=1, bias=False), nn.BatchNorm2d(o), nn.ReLU(inplace=True),
        nn.Conv2d(o, o, 3, padding=1, bias=False), nn.BatchNorm2d(o), nn.ReLU(inplace=True),
    )


class RoadNet(nn.Module):
    def __init__(self, in_ch=4, ch=16):
        super().__init__()
        self.d1, self.d2 = double_conv(in_ch, ch), double_conv(ch, 2 * ch)
        self.mid = CrissCross(2 * ch)
        self.up = nn.ConvTranspose2d(2 * ch, ch, 2, 2)
        self.u1 = double_conv(2 * ch, ch)
        self.head = nn.Conv2d(ch, 1, 1)

    def forward(self, img, cloud_free=None):
        a = self.d1(img)
        b = self.d2(nn.functional.max_pool2d(a, 2))
        if cloud_free is not None:
            cloud_free = nn.functional.max_pool2d(cloud_free[:, None].float(), 2)[:, 0]
        b = self.mid(b, cloud_free)
        return self.head(self.u1(torch.cat([a, self.up(b)], 1)))
