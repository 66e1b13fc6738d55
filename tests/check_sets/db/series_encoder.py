import torch
from torch import nn


class SeriesEncoder(nn.Module):
    """Encoder layer for multivariate series with sinusoidal positions (Vaswani et al.).

    x: (batch, steps, features) -> (batch, steps, d); a sample is encoded on its own.
    Channel pair i of the position code turns with 1 / 10000 ** (2i / d).
    """

    def __init__(self, features=3, d=16, heads=2, longest=200):
        super().__init__()
        self.embed = nn.Linear(features, d)
        self.mix = nn.MultiheadAttention(d, heads)
        self.norm1, self.norm2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.ff = nn.Sequential(nn.Linear(d, 4 * d), nn.ReLU(), nn.Linear(4 * d, d))
        t = torch.arange(longest, dtype=torch.float32)[:, None]
        wave = 10000.0 ** (-2 * torch.arange(0, d, 2, dtype=torch.float32) / d)
        pe = torch.zeros(longest, d)
        pe[:, 0::2] = torch.sin(t * wave)
        pe[:, 1::2] = torch.cos(t * wave)
        self.register_buffer("pe", pe)

    def forward(self, x):
        h = self.embed(x) + self.pe[: x.shape[1]]
        h = self.norm1(h + self.mix(h, h, h, need_weights=False)[0])
        return self.norm2(h + self.ff(h))
