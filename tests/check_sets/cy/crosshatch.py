import math
import torch
from torch import nn


class Crosshatch(nn.Module):
    """Axial block for feature maps (B, C, H, W): scaled dot-product attention
    along every row, then along every column, each with a residual."""

    def __init__(self, channels, heads=2):
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList(nn.LayerNorm(channels) for _ in range(2))
        self.ins = nn.ModuleList(nn.Linear(channels, 3 * channels, bias=False) for _ in range(2))
        self.outs = nn.ModuleList(nn.Linear(channels, channels) for _ in range(2))

    def line(self, x, i):
        """x (..., n, C): attend along n."""
        *lead, n, c = x.shape
        y = self.ins[i](self.norms[i](x)).view(*lead, n, 3, self.heads, c // self.heads)
        q, k, v = y.unbind(-3)
        q, k, v = (t.transpose(-3, -2) for t in (q, k, v))
        score = q @ k.transpose(-2, -1) / math.sqrt(q.size(-2))
        mix = torch.softmax(score, dim=-1) @ v
        return x + self.outs[i](mix.transpose(-3, -2).reshape(*lead, n, c))

    def forward(self, img):
        x = img.permute(0, 2, 3, 1)
        x = self.line(x, 0)
        x = self.line(x.transpose(1, 2), 1).transpose(1, 2)
        return x.permute(0, 3, 1, 2)
