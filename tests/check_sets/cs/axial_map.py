import torch
from torch import nn


class AxialAttention(nn.Module):
    """Attention along a single spatial axis of a channels-last map (B, H, W, C)."""

    def __init__(self, channels, heads, axis):
        super().__init__()
        if axis not in ("height", "width"):
            raise ValueError(axis)
        self.axis, self.heads = axis, heads
        self.to_q = nn.Linear(channels, channels, bias=False)
        self.to_kv = nn.Linear(channels, 2 * channels, bias=False)
        self.proj = nn.Linear(channels, channels)

    def forward(self, x):
        if self.axis == "height":
            x = x.transpose(1, 2)
        b, s, n, c = x.shape
        d = c // self.heads
        q = self.to_q(x).view(b, s, n, self.heads, d)
        k, v = self.to_kv(x).view(b, s, n, 2, self.heads, d).unbind(3)
        sim = torch.einsum("bsihd,bsjhd->bshij", q * d ** -0.5, k)
        y = torch.einsum("bshij,bsjhd->bsihd", sim.softmax(-1), v)
        y = self.proj(y.flatten(-2))
        return y.transpose(1, 2) if self.axis == "height" else y


class AxialBlock(nn.Module):
    """Rows first, then columns, each with a residual."""

    def __init__(self, channels, heads=2):
        super().__init__()
        self.row = AxialAttention(channels, heads, "width")
        self.col = AxialAttention(channels, heads, "height")

    def forward(self, x):
        x = x + self.row(x)
        return x + self.col(x)
