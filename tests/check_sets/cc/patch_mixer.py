"""Pre-norm transformer over image patches, with layer scale and register tokens.

Multi-head attention with heads of width dim // heads taken from consecutive
channels of the projections.  Registers are appended after the patches and
dropped at the end.
"""
from dataclasses import dataclass

import torch
from torch import nn


@dataclass(frozen=True)
class PatchConfig:
    dim: int = 32
    heads: int = 4
    registers: int = 2
    depth: int = 1
    layer_scale: float = 0.1
    patch: int = 4


class PatchAttention(nn.Module):
    def __init__(self, cfg: PatchConfig):
        super().__init__()
        self.heads = cfg.heads
        self.query = nn.Linear(cfg.dim, cfg.dim)
        self.key = nn.Linear(cfg.dim, cfg.dim, bias=False)
        self.value = nn.Linear(cfg.dim, cfg.dim)
        self.out = nn.Linear(cfg.dim, cfg.dim)

    def _split(self, t: torch.Tensor) -> torch.Tensor:
        b, n, c = t.shape
        return t.reshape(b, self.heads, n, c // self.heads)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self._split(self.query(x)), self._split(self.key(x)), self._split(self.value(x))
        att = torch.einsum("bhic,bhjc->bhij", q, k) * q.shape[-1] ** -0.5
        att = att.softmax(dim=-1)
        y = torch.einsum("bhij,bhjc->bihc", att, v)
        return self.out(y.flatten(2))


class PatchBlock(nn.Module):
    def __init__(self, cfg: PatchConfig):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(cfg.dim), nn.LayerNorm(cfg.dim)
        self.attn = PatchAttention(cfg)
        self.mlp = nn.Sequential(
            nn.Linear(cfg.dim, 4 * cfg.dim), nn.GELU(), nn.Linear(4 * cfg.dim, cfg.dim)
        )
        self.g1 = nn.Parameter(torch.full((cfg.dim,), cfg.layer_scale))
        self.g2 = nn.Parameter(torch.full((cfg.dim,), cfg.layer_scale))

    def forward(self, x):
        x = x + self.g1 * self.attn(self.norm1(x))
        return x + self.g2 * self.mlp(self.norm2(x))


class PatchEncoder(nn.Module):
    def __init__(self, cfg: PatchConfig = PatchConfig()):
        super().__init__()
        self.stem = nn.Conv2d(3, cfg.dim, cfg.patch, cfg.patch)
        self.registers = nn.Parameter(torch.randn(1, cfg.registers, cfg.dim) * 0.02)
        self.blocks = nn.Sequential(*[PatchBlock(cfg) for _ in range(cfg.depth)])

    def forward(self, img):
        x = self.stem(img).flatten(2).transpose(1, 2)
        n = x.shape[1]
        x = torch.cat([x, self.registers.expand(len(x), -1, -1)], dim=1)
        return self.blocks(x)[:, :n]
