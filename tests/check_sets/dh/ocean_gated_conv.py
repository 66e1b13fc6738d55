import torch
from torch import nn


class GatedOcean(nn.Module):
    """Sea surface temperature, next day from the last days.

    x (B, days, H, W) -> (B, 1, H, W). Gated convolutions, the longitude wraps around.
    """

    def __init__(self, days=5, width=16, layers=3):
        super().__init__()
        self.inp = nn.Conv2d(days, width, 1)
        self.feat = nn.ModuleList([nn.Conv2d(width, width, 3) for _ in range(layers)])
        self.gate = nn.ModuleList([nn.Conv2d(width, width, 3) for _ in range(layers)])
        self.out = nn.Conv2d(width, 1, 1)

    @staticmethod
    def border(x):
        x = torch.cat([x[..., -1:], x, x[..., :1]], dim=-1)
        return nn.functional.pad(x, (0, 0, 1, 1), mode="replicate")

    def forward(self, x):
        last = x[:, -1:]
        z = self.inp(x)
        for f, g in zip(self.feat, self.gate):
            p = self.border(z)
            z = z + torch.tanh(f(p)) * torch.sigmoid(g(p))
        return last + self.out(z)
