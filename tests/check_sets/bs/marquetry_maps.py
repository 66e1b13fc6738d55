"""Where on the panel does each veneer species lie?  Query -> soft location maps.

Every learned species query produces one map per head over the feature grid; each head spreads a
total weight of one over the cells of the panel, and the head's pooled value vector is the
average of the values under its map.  Maps are also drawn for the restorers.
"""
from typing import NamedTuple, Optional

import torch
import torch.nn as nn
import torch.nn.functional as F

SPECIES = ["walnut", "holly", "bog oak", "tulipwood", "boxwood"]


class MapOutput(NamedTuple):
    pooled: torch.Tensor       # (B, Q, C)
    maps: torch.Tensor         # (B, Q, heads, h, w)


class SpeciesMaps(nn.Module):
    """Multi-head cross attention from queries to an image, keeping the 2-d maps.

    features: (B, C, h, w)
    queries:  (B, Q, C)
    loss:     (B, h, w) bool, True on cells where the veneer is lost and nothing can be learned
    """

    def __init__(self, channels: int, heads: int = 4):
        super().__init__()
        if channels % heads:
            raise ValueError("channels must be divisible by heads")
        self.heads = heads
        self.norm = (channels / heads) ** -0.5
        self.q = nn.Linear(channels, channels)
        self.k = nn.Conv2d(channels, channels, 1)
        self.v = nn.Conv2d(channels, channels, 1)
        self.o = nn.Linear(channels, channels)
        for p in (self.q, self.k, self.v, self.o):
            nn.init.xavier_uniform_(p.weight.view(p.weight.shape[0], -1))
            nn.init.zeros_(p.bias)

    def forward(self, features, queries, loss: Optional[torch.Tensor] = None) -> MapOutput:
        B, C, h, w = features.shape
        Q, n = queries.shape[1], self.heads
        q = self.q(queries).view(B, Q, n, C // n)
        k = self.k(features).view(B, n, C // n, h, w)
        v = self.v(features).view(B, n, C // n, h, w)

        maps = torch.einsum("bqnc,bnchw->bqnhw", q * self.norm, k)
        if loss is not None:
            maps = maps.masked_fill(loss[:, None, None], float("-inf"))
        maps = F.softmax(maps.flatten(2), dim=-1).view(B, Q, n, h, w)
        pooled = torch.einsum("bqnhw,bnchw->bqnc", maps, v)
        return MapOutput(self.o(pooled.flatten(2)), maps)


class Backbone(nn.Sequential):
    def __init__(self, channels):
        super().__init__(
            nn.Conv2d(3, channels, 3, stride=2, padding=1), nn.GroupNorm(4, channels), nn.ReLU(),
            nn.Conv2d(channels, channels, 3, stride=2, padding=1), nn.GroupNorm(4, channels), nn.ReLU(),
        )


class MarquetryNet(nn.Module):
    def __init__(self, channels=32, heads=4):
        super().__init__()
        self.backbone = Backbone(channels)
        self.species = nn.Parameter(torch.randn(len(SPECIES), channels) * 0.3)
        self.maps = SpeciesMaps(channels, heads)
        self.ln = nn.LayerNorm(channels)
        self.present = nn.Linear(channels, 1)
        self.mask_head = nn.Conv2d(heads + channels, 1, 3, padding=1)

    def forward(self, img, loss=None):
        f = self.backbone(img)
        if loss is not None:
            loss = F.interpolate(loss[:, None].float(), f.shape[-2:]).squeeze(1) > 0.5
        queries = self.species.expand(img.shape[0], -1, -1)
        out = self.maps(f, queries, loss)
        z = self.ln(queries + out.pooled)
        both = [self.mask_head(torch.cat([out.maps[:, i], f * z[:, i, :, None, None]], 1)) for i in range(len(SPECIES))]
        return self.present(z).squeeze(-1), torch.cat(both, 1)


if __name__ == "__main__":
    net = MarquetryNet()
    lost = torch.zeros(2, 32, 48, dtype=torch.bool)
    lost[0, :8] = True
    logit, masks = net(torch.rand(2, 3, 32, 48), lost)
    print(logit.shape, masks.shape)
