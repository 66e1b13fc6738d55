"""Parcel delineation on Sentinel-2 tiles.

A set of learned parcel queries looks at the pixel features of one tile.  Every head
produces its own heat map of a parcel, and the maps are fed to the mask decoder.
"""
from dataclasses import dataclass

import torch
from torch import nn
import torch.nn.functional as F


@dataclass
class ParcelCfg:
    bands: int = 10
    width: int = 32
    heads: int = 4
    parcels: int = 6


class PixelStem(nn.Module):
    """Two strided-less convolutions, bands -> width."""

    def __init__(self, bands, width):
        super().__init__()
        self.a = nn.Conv2d(bands, width, 3, padding=1)
        self.b = nn.Conv2d(width, width, 3, padding=1)

    def forward(self, tile):
        return self.b(F.relu(self.a(tile)))


class ParcelQueryMap(nn.Module):
    """queries [B, Q, C], pixels [B, C, h, w] -> (pooled [B, Q, C], maps [B, Q, H, h, w]).

    ``maps[b, q, n]`` is a probability map over the h*w pixels for head n; pixels where
    ``nodata`` ([B, h, w], True = cloud or outside of the swath) is set get zero.
    """

    def __init__(self, cfg: ParcelCfg):
        super().__init__()
        self.h = cfg.heads
        self.q_lin = nn.Linear(cfg.width, cfg.width)
        self.k_conv = nn.Conv2d(cfg.width, cfg.width, 1)
        self.norm_fact = (cfg.width // cfg.heads) ** -0.5

    def forward(self, queries, pixels, nodata=None):
        b, nq, c = queries.shape
        hh, ww = pixels.shape[-2:]
        q = self.q_lin(queries).view(b, nq, self.h, c // self.h)
        k = self.k_conv(pixels).view(b, self.h, c // self.h, hh, ww)
        logits = torch.einsum("bqnc,bnchw->bqnhw", q * self.norm_fact, k)
        if nodata is not None:
            logits = logits.masked_fill(nodata[:, None, None], float("-inf"))
        maps = F.softmax(logits.flatten(2), dim=-1).view_as(logits)
        per_head = pixels.view(b, self.h, c // self.h, hh, ww)
        pooled = torch.einsum("bqnhw,bnchw->bqnc", maps, per_head)
        return pooled.reshape(b, nq, c), maps


class ParcelNet(nn.Module):
    def __init__(self, cfg: ParcelCfg):
        super().__init__()
        self.stem = PixelStem(cfg.bands, cfg.width)
        self.queries = nn.Parameter(torch.randn(cfg.parcels, cfg.width) * 0.1)
        self.look = ParcelQueryMap(cfg)
        self.score = nn.Linear(cfg.width, 1)

    def forward(self, tile, nodata=None):
        feats = self.stem(tile)
        q = self.queries.expand(tile.shape[0], -1, -1)
        pooled, maps = self.look(q, feats, nodata)
        return self.score(pooled).squeeze(-1), maps


if __name__ == "__main__":
    s, m = ParcelNet(ParcelCfg())(torch.randn(2, 10, 8, 8))
    print(s.shape, m.shape)
