from dataclasses import dataclass
import math

import torch
from torch import nn, Tensor


@dataclass
class ViTConfig:
    image_size: int = 32
    patch_size: int = 8
    num_classes: int = 10
    hidden: int = 96
    heads: int = 6
    depth: int = 2
    mlp_ratio: float = 2.0
    drop: float = 0.1


class PatchEmbed(nn.Module):
    def __init__(self, cfg: ViTConfig):
        super().__init__()
        n = (cfg.image_size // cfg.patch_size) ** 2
        self.proj = nn.Conv2d(3, cfg.hidden, cfg.patch_size, cfg.patch_size)
        self.cls = nn.Parameter(torch.zeros(1, 1, cfg.hidden))
        self.pos = nn.Parameter(torch.randn(1, n + 1, cfg.hidden) * 0.02)

    def forward(self, img: Tensor) -> Tensor:
        x = self.proj(img).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls.expand(len(x), -1, -1), x], dim=1)
        return x + self.pos


class MHSA(nn.Module):
    def __init__(self, cfg: ViTConfig):
        super().__init__()
        assert cfg.hidden % cfg.heads == 0
        self.hidden = cfg.hidden
        self.heads = cfg.heads
        self.head_dim = cfg.hidden // cfg.heads
        self.queries = nn.Linear(cfg.hidden, cfg.hidden)
        self.keys = nn.Linear(cfg.hidden, cfg.hidden)
        self.values = nn.Linear(cfg.hidden, cfg.hidden)
        self.out = nn.Linear(cfg.hidden, cfg.hidden)
        self.drop = nn.Dropout(cfg.drop)

    def _heads(self, t: Tensor) -> Tensor:
        b, n, _ = t.shape
        return t.view(b, n, self.heads, self.head_dim).transpose(1, 2)

    def forward(self, x: Tensor) -> Tensor:
        b, n, e = x.shape
        q = self._heads(self.queries(x))
        k = self._heads(self.keys(x))
        v = self._heads(self.values(x))
        energy = torch.einsum("bhqd,bhkd->bhqk", q, k)
        att = torch.softmax(energy / math.sqrt(self.hidden), dim=-1)
        att = self.drop(att)
        y = torch.einsum("bhqk,bhkd->bqhd", att, v).reshape(b, n, e)
        return self.out(y)


class Encoder(nn.Module):
    def __init__(self, cfg: ViTConfig):
        super().__init__()
        inner = int(cfg.hidden * cfg.mlp_ratio)
        self.ln1 = nn.LayerNorm(cfg.hidden)
        self.att = MHSA(cfg)
        self.ln2 = nn.LayerNorm(cfg.hidden)
        self.mlp = nn.Sequential(
            nn.Linear(cfg.hidden, inner), nn.GELU(), nn.Dropout(cfg.drop), nn.Linear(inner, cfg.hidden)
        )

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.att(self.ln1(x))
        return x + self.mlp(self.ln2(x))


class ViT(nn.Module):
    def __init__(self, cfg: ViTConfig = ViTConfig()):
        super().__init__()
        self.embed = PatchEmbed(cfg)
        self.blocks = nn.ModuleList(Encoder(cfg) for _ in range(cfg.depth))
        self.norm = nn.LayerNorm(cfg.hidden)
        self.head = nn.Linear(cfg.hidden, cfg.num_classes)

    def forward(self, img: Tensor) -> Tensor:
        """img: (B, 3, 32, 32) -> logits (B, num_classes)"""
        x = self.embed(img)
        for blk in self.blocks:
            x = blk(x)
        return self.head(self.norm(x)[:, 0])
