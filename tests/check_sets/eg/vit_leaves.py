"""Vision transformer for the plant leaf data set (38 classes), final project.

img: (B, 3, S, S) float, S a multiple of patch. Returns logits (B, n_classes).
"""
import torch
from torch import nn


class Attention(nn.Module):
    """Bidirectional multi-head self attention of ViT.

    x: (B, N, dim). dim = heads * head_dim, scores are scaled with head_dim ** -0.5.
    """

    def __init__(self, dim, heads=8, qkv_bias=False, attn_drop=0., proj_drop=0.):
        super().__init__()
        self.heads = heads
        self.scale = (dim // heads) ** -0.5
        self.qkv = nn.Linear(dim, dim * 3, bias=qkv_bias)
        self.attn_drop = nn.Dropout(attn_drop)
        self.proj = nn.Linear(dim, dim)
        self.proj_drop = nn.Dropout(proj_drop)

    def forward(self, x):
        B, N, C = x.shape
        qkv = self.qkv(x).reshape(B, N, 3, self.heads, C // self.heads).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.unbind(0)
        attn = (q @ k.transpose(-2, -1)) * self.scale
        attn = attn.softmax(dim=-1)
        attn = self.attn_drop(attn)
        x = (attn @ v).transpose(1, 2).reshape(B, N, C)
        return self.proj_drop(self.proj(x))


class Layer(nn.Module):
    def __init__(self, dim, heads, mlp_ratio=2):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attn = Attention(dim, heads, qkv_bias=True)
        self.mlp = nn.Sequential(nn.Linear(dim, dim * mlp_ratio), nn.GELU(), nn.Linear(dim * mlp_ratio, dim))

    def forward(self, x):
        x = x + self.attn(self.n1(x))
        return x + self.mlp(self.n2(x))


class LeafViT(nn.Module):
    def __init__(self, size=32, patch=8, dim=48, depth=2, heads=6, n_classes=38):
        super().__init__()
        self.embed = nn.Conv2d(3, dim, patch, stride=patch)
        n = (size // patch) ** 2
        self.cls = nn.Parameter(torch.randn(1, 1, dim) * .02)
        self.pos = nn.Parameter(torch.randn(1, n + 1, dim) * .02)
        self.layers = nn.Sequential(*[Layer(dim, heads) for _ in range(depth)])
        self.head = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, n_classes))

    def forward(self, img):
        x = self.embed(img).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls.expand(len(x), -1, -1), x], dim=1) + self.pos
        return self.head(self.layers(x)[:, 0])
