import torch
from torch import nn


class MHSA(nn.Module):
    def __init__(self, dim=48, heads=4, dropout=0.0):
        super().__init__()
        self.dim, self.heads = dim, heads
        self.wq, self.wk, self.wv = nn.Linear(dim, dim), nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.wo = nn.Linear(dim, dim)
        self.scale = dim ** 0.5
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        b, n, f = x.size()
        q = self.wq(x).view(b, n, self.heads, self.dim // self.heads).transpose(1, 2)
        k = self.wk(x).view(b, n, self.heads, self.dim // self.heads).transpose(1, 2)
        v = self.wv(x).view(b, n, self.heads, self.dim // self.heads).transpose(1, 2)
        score = torch.einsum("bhif,bhjf->bhij", q, k) / self.scale
        score = score.softmax(-1)
        out = torch.einsum("bhij,bhjf->bihf", score, v)
        return self.dropout(self.wo(out.flatten(2)))


class Block(nn.Module):
    def __init__(self, dim, heads, mlp):
        super().__init__()
        self.la1, self.la2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.msa = MHSA(dim, heads)
        self.mlp = nn.Sequential(nn.Linear(dim, mlp), nn.GELU(), nn.Linear(mlp, dim))

    def forward(self, x):
        x = self.msa(self.la1(x)) + x
        return self.mlp(self.la2(x)) + x


class ViT(nn.Module):
    def __init__(self, size=16, patch=4, channels=3, dim=48, depth=2, heads=4, mlp=64, classes=10):
        super().__init__()
        self.embed = nn.Conv2d(channels, dim, patch, patch)
        self.cls = nn.Parameter(torch.zeros(1, 1, dim))
        self.pos = nn.Parameter(torch.randn(1, (size // patch) ** 2 + 1, dim) * 0.02)
        self.blocks = nn.Sequential(*[Block(dim, heads, mlp) for _ in range(depth)])
        self.head = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, classes))

    def forward(self, img):
        x = self.embed(img).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls.expand(x.size(0), -1, -1), x], 1) + self.pos
        return self.head(self.blocks(x)[:, 0])
