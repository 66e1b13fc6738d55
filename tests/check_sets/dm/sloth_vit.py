"""sloth-vit -- my vision transformer for CIFAR-10, trained on one laptop GPU (slowly).

Images (B, 3, 32, 32) are cut in 4x4 patches, giving 64 tokens, in front of which
stand one class token and a few "register" tokens (Darcet et al. 2023).  The head
reads the class token only and returns logits (B, n_classes).

The attention is the cosine flavour of Swin v2: queries and keys are brought to
length one inside every head, the cosine is multiplied by a learned number
per head, exp(log_g), at most 100.  There is therefore no 1/sqrt(d) here.
Tokens see all tokens.
"""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class SlothAttention(nn.Module):
    """x (B, N, C) -> (B, N, C), cosine self-attention, no mask."""

    def __init__(self, dim, heads):
        super().__init__()
        self.h = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)
        self.log_g = nn.Parameter(torch.full((heads, 1, 1), math.log(10.0)))

    def forward(self, x):
        B, N, C = x.shape
        q, k, v = self.qkv(x).view(B, N, 3, self.h, C // self.h).permute(2, 0, 3, 1, 4).unbind(0)
        q = F.normalize(q, dim=-1)
        k = F.normalize(k, dim=-1)
        g = self.log_g.clamp(max=math.log(100.0)).exp()
        w = (q @ k.mT * g).softmax(-1)
        return self.out((w @ v).permute(0, 2, 1, 3).flatten(2))


class SlothBlock(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.att = SlothAttention(dim, heads)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def forward(self, x):
        # post-norm on the branch, again like Swin v2
        x = x + self.n1(self.att(x))
        return x + self.n2(self.mlp(x))


class SlothViT(nn.Module):
    def __init__(self, dim=48, depth=2, heads=4, n_reg=3, n_classes=10):
        super().__init__()
        self.cut = nn.Conv2d(3, dim, 4, stride=4)
        self.pos = nn.Parameter(torch.randn(1, 64, dim) * 0.02)
        self.front = nn.Parameter(torch.randn(1, 1 + n_reg, dim) * 0.02)
        self.body = nn.Sequential(*[SlothBlock(dim, heads) for _ in range(depth)])
        self.head = nn.Linear(dim, n_classes)

    def forward(self, img):
        t = self.cut(img).flatten(2).transpose(1, 2) + self.pos
        t = torch.cat([self.front.expand(len(t), -1, -1), t], dim=1)
        return self.head(self.body(t)[:, 0])
