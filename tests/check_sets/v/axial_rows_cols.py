import torch
from torch import nn


class AxisAttention(nn.Module):
    """Multi-head self attention along ONE spatial axis of a feature map."""

    def __init__(self, channels, heads, length, axis):
        super().__init__()
        assert axis in ("h", "w")
        self.axis = axis
        self.heads = heads
        self.head_ch = channels // heads
        self.to_q = nn.Conv2d(channels, channels, 1, bias=False)
        self.to_kv = nn.Conv2d(channels, 2 * channels, 1, bias=False)
        self.rel = nn.Parameter(torch.randn(heads, 2 * length - 1) * 0.1)
        self.proj = nn.Conv2d(channels, channels, 1)

    def _bias(self, n):
        centre = (self.rel.shape[1] - 1) // 2
        i = torch.arange(n, device=self.rel.device)
        return self.rel[:, i[None, :] - i[:, None] + centre]

    def forward(self, fmap):
        b, c, h, w = fmap.shape
        q = self.to_q(fmap)
        k, v = self.to_kv(fmap).chunk(2, dim=1)

        # everything becomes  b, heads, <other axis>, <attended axis>, ch
        def lay(t):
            t = t.view(b, self.heads, self.head_ch, h, w)
            return t.permute(0, 1, 4, 3, 2) if self.axis == "h" else t.permute(0, 1, 3, 4, 2)

        q, k, v = lay(q), lay(k), lay(v)
        logits = (q * self.head_ch ** -0.5) @ k.mT
        logits = logits + self._bias(q.shape[3])[None, :, None]
        ctx = torch.softmax(logits, dim=4) @ v
        back = (0, 1, 4, 3, 2) if self.axis == "h" else (0, 1, 4, 2, 3)
        return self.proj(ctx.permute(*back).reshape(b, c, h, w))


class AxialBlock(nn.Module):
    def __init__(self, channels, heads, size):
        super().__init__()
        hh, ww = size
        self.norm = nn.GroupNorm(1, channels)
        self.col = AxisAttention(channels, heads, hh, "h")
        self.row = AxisAttention(channels, heads, ww, "w")
        self.gate = nn.Parameter(torch.ones(2))

    def forward(self, fmap):
        y = self.norm(fmap)
        return fmap + self.gate[0] * self.col(y) + self.gate[1] * self.row(y)


if __name__ == "__main__":
    torch.manual_seed(1)
    net = nn.Sequential(AxialBlock(24, 3, (6, 10)), AxialBlock(24, 3, (6, 10)))
    print(net(torch.randn(2, 24, 6, 10)).std().item())
