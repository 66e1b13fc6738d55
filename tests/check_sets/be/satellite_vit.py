"""ViT for Sentinel-2 land cover tiles (13 bands).

Dropout is used for training only; ``model.eval()`` gives deterministic maps.
"""
from dataclasses import dataclass, field
from typing import List

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class ViTConfig:
    bands: int = 13
    tile: int = 16
    patch: int = 4
    dim: int = 48
    heads: int = 4
    depth: int = 2
    attn_drop: float = 0.1
    drop: float = 0.1
    classes: List[str] = field(default_factory=lambda: ["water", "forest", "crop", "urban"])


class PatchTokens(nn.Module):
    def __init__(self, cfg: ViTConfig):
        super().__init__()
        self.conv = nn.Conv2d(cfg.bands, cfg.dim, cfg.patch, stride=cfg.patch)
        n = (cfg.tile // cfg.patch) ** 2
        self.cls = nn.Parameter(torch.zeros(1, 1, cfg.dim))
        self.pos = nn.Parameter(torch.randn(1, n + 1, cfg.dim) * 0.02)

    def forward(self, img):
        x = self.conv(img).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls.expand(len(x), -1, -1), x], dim=1)
        return x + self.pos


class TileAttention(nn.Module):
    """Bidirectional self attention over the patches of a tile, x [B, N, dim]."""

    def __init__(self, cfg: ViTConfig):
        super().__init__()
        self.h = cfg.heads
        self.attn_drop = cfg.attn_drop
        self.qkv = nn.Linear(cfg.dim, cfg.dim * 3)
        self.proj = nn.Linear(cfg.dim, cfg.dim)
        self.proj_drop = nn.Dropout(cfg.drop)

    def forward(self, x):
        b, n, c = x.shape
        q, k, v = self.qkv(x).reshape(b, n, 3, self.h, c // self.h).permute(2, 0, 3, 1, 4).unbind(0)
        att = (q @ k.transpose(-2, -1)) * (c // self.h) ** -0.5
        att = att.softmax(dim=-1)
        att = F.dropout(att, self.attn_drop)
        x = (att @ v).transpose(1, 2).reshape(b, n, c)
        return self.proj_drop(self.proj(x))


class Layer(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(cfg.dim), nn.LayerNorm(cfg.dim)
        self.attn = TileAttention(cfg)
        self.mlp = nn.Sequential(
            nn.Linear(cfg.dim, 4 * cfg.dim), nn.GELU(), nn.Dropout(cfg.drop), nn.Linear(4 * cfg.dim, cfg.dim)
        )

    def forward(self, x):
        x = x + self.attn(self.n1(x))
        return x + self.mlp(self.n2(x))


class LandCoverViT(nn.Module):
    def __init__(self, cfg: ViTConfig = ViTConfig()):
        super().__init__()
        self.tokens = PatchTokens(cfg)
        self.layers = nn.Sequential(*[Layer(cfg) for _ in range(cfg.depth)])
        self.head = nn.Sequential(nn.LayerNorm(cfg.dim), nn.Linear(cfg.dim, len(cfg.classes)))

    def forward(self, img):
        return self.head(self.layers(self.tokens(img))[:, 0])
