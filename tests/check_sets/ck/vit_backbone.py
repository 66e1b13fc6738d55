"""
Small re-implementation of "An Image is Worth 16x16 Words" (Dosovitskiy et al. 2021).

Only what is needed for CIFAR / TinyImageNet. Pre-norm blocks, class token,
learned 1-D position embeddings.
"""
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class ViTConfig:
    image_size: int = 32
    patch_size: int = 8
    width: int = 48
    depth: int = 2
    heads: int = 4
    classes: int = 10
    drop: float = 0.0


class MSA(nn.Module):
    """Multi-head self-attention over all patches.  x: (B, N, width) -> (B, N, width)"""

    def __init__(self, width: int = 48, heads: int = 4, drop: float = 0.0):
        super().__init__()
        assert width % heads == 0
        self.heads = heads
        self.scale = (width // heads) ** -0.5
        self.to_qkv = nn.Linear(width, 3 * width, bias=False)
        self.proj = nn.Linear(width, width)
        self.drop = nn.Dropout(drop)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        B, N, C = x.shape
        qkv = self.to_qkv(x).view(B, N, 3, self.heads, C // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        att = torch.einsum("bhid,bhjd->bhij", q * self.scale, k)
        att = self.drop(att.softmax(dim=-1))
        out = torch.einsum("bhij,bhjd->bihd", att, v)
        return self.proj(out.flatten(2))


class Block(nn.Module):
    def __init__(self, c: ViTConfig):
        super().__init__()
        self.ln1 = nn.LayerNorm(c.width)
        self.ln2 = nn.LayerNorm(c.width)
        self.attn = MSA(c.width, c.heads, c.drop)
        self.fc1 = nn.Linear(c.width, 4 * c.width)
        self.fc2 = nn.Linear(4 * c.width, c.width)

    def forward(self, x):
        x = x + self.attn(self.ln1(x))
        return x + self.fc2(F.gelu(self.fc1(self.ln2(x))))


class ViT(nn.Module):
    def __init__(self, c: ViTConfig = ViTConfig()):
        super().__init__()
        n = (c.image_size // c.patch_size) ** 2
        self.embed = nn.Conv2d(3, c.width, c.patch_size, stride=c.patch_size)
        self.cls = nn.Parameter(torch.zeros(1, 1, c.width))
        self.pos = nn.Parameter(torch.randn(1, n + 1, c.width) * 0.02)
        self.blocks = nn.Sequential(*[Block(c) for _ in range(c.depth)])
        self.norm = nn.LayerNorm(c.width)
        self.head = nn.Linear(c.width, c.classes)

    def forward(self, img):
        x = self.embed(img).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls.expand(len(x), -1, -1), x], dim=1) + self.pos
        return self.head(self.norm(self.blocks(x))[:, 0])
