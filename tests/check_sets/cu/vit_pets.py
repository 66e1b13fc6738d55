"""ViT-micro for the Oxford pets homework (part 2)."""
import torch
import torch.nn as nn


class MSA(nn.Module):
    def __init__(self, dim, heads, p=0.0):
        super().__init__()
        self.heads = heads
        self.scale = (dim // heads) ** -0.5
        self.q = nn.Linear(dim, dim)
        self.k = nn.Linear(dim, dim)
        self.v = nn.Linear(dim, dim)
        self.proj = nn.Linear(dim, dim)
        self.drop = nn.Dropout(p)

    def forward(self, x):
        B, N, C = x.shape
        split = lambda t: t.view(B, N, self.heads, C // self.heads).permute(0, 2, 1, 3)
        q, k, v = split(self.q(x)), split(self.k(x)), split(self.v(x))
        attn = (q @ k.transpose(-1, -2) * self.scale).softmax(-1)
        out = self.drop(attn) @ v
        # heads side by side again
        out = out.reshape(B, N, C)
        return self.proj(out)


class Layer(nn.Module):
    def __init__(self, dim, heads, p):
        super().__init__()
        self.a = nn.LayerNorm(dim)
        self.b = nn.LayerNorm(dim)
        self.msa = MSA(dim, heads, p)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def forward(self, x):
        x = x + self.msa(self.a(x))
        return x + self.mlp(self.b(x))


class ViTMicro(nn.Module):
    """img (B, 3, S, S) -> logits (B, classes)"""

    def __init__(self, size=16, patch=4, dim=32, heads=4, depth=2, classes=37, p=0.0):
        super().__init__()
        n = (size // patch) ** 2
        self.patch = nn.Conv2d(3, dim, patch, patch)
        self.cls = nn.Parameter(torch.randn(1, 1, dim) * 0.02)
        self.pos = nn.Parameter(torch.randn(1, n + 1, dim) * 0.02)
        self.layers = nn.Sequential(*[Layer(dim, heads, p) for _ in range(depth)])
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, classes)

    def forward(self, img):
        x = self.patch(img).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls.expand(x.size(0), -1, -1), x], 1) + self.pos
        return self.head(self.norm(self.layers(x))[:, 0])
