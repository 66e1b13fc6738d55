"""Vision Transformer (Dosovitskiy et al. 2021) for small grey images, written for the deep learning seminar."""
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class ViTConfig:
    image: int = 28
    patch: int = 7
    chans: int = 1
    dim: int = 48
    depth: int = 2
    heads: int = 4
    classes: int = 10
    drop: float = 0.1


class MSA(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.h = cfg.heads
        self.d = cfg.dim // cfg.heads
        self.p = cfg.drop
        self.qkv = nn.Linear(cfg.dim, 3 * cfg.dim)
        self.out = nn.Linear(cfg.dim, cfg.dim)

    def forward(self, x):
        B, N, D = x.shape
        q, k, v = self.qkv(x).reshape(B, N, 3, self.h, self.d).permute(2, 0, 3, 1, 4)
        a = torch.softmax(q @ k.transpose(-2, -1) / self.d ** 0.5, dim=-1)
        a = F.dropout(a, self.p, self.training)
        return self.out((a @ v).transpose(1, 2).reshape(B, N, D))


class Block(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(cfg.dim), nn.LayerNorm(cfg.dim)
        self.msa = MSA(cfg)
        self.mlp = nn.Sequential(nn.Linear(cfg.dim, 4 * cfg.dim), nn.GELU(), nn.Linear(4 * cfg.dim, cfg.dim))

    def forward(self, x):
        x = x + self.msa(self.n1(x))
        return x + self.mlp(self.n2(x))


class ViT(nn.Module):
    """images (B, chans, image, image) -> logits (B, classes)"""

    def __init__(self, cfg: ViTConfig = ViTConfig()):
        super().__init__()
        n = (cfg.image // cfg.patch) ** 2
        self.patchify = nn.Conv2d(cfg.chans, cfg.dim, cfg.patch, cfg.patch)
        self.cls = nn.Parameter(torch.randn(1, 1, cfg.dim) * 0.02)
        self.pos = nn.Parameter(torch.randn(1, n + 1, cfg.dim) * 0.02)
        self.blocks = nn.ModuleList(Block(cfg) for _ in range(cfg.depth))
        self.norm = nn.LayerNorm(cfg.dim)
        self.head = nn.Linear(cfg.dim, cfg.classes)

    def forward(self, img):
        x = self.patchify(img).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls.expand(len(x), -1, -1), x], 1) + self.pos
        for blk in self.blocks:
            x = blk(x)
        return self.head(self.norm(x[:, 0]))
