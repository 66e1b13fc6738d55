import torch
import torch.nn as nn


class MSA(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.dim = dim
        self.q = nn.Linear(dim, dim)
        self.k = nn.Linear(dim, dim)
        self.v = nn.Linear(dim, dim)
        self.o = nn.Linear(dim, dim)

    def forward(self, x):
        n, l, d = x.size()
        q = self.q(x).view(n, l, self.heads, d // self.heads).transpose(1, 2)
        k = self.k(x).view(n, l, self.heads, d // self.heads).transpose(1, 2)
        v = self.v(x).view(n, l, self.heads, d // self.heads).transpose(1, 2)
        att = torch.matmul(q, k.transpose(-1, -2)) / self.heads**0.5
        att = torch.softmax(att, dim=-1)
        out = torch.matmul(att, v)
        out = out.reshape(n, l, d)
        return self.o(out)


class Encoder(nn.Module):
    def __init__(self, dim, heads, mlp):
        super().__init__()
        self.la1 = nn.LayerNorm(dim)
        self.msa = MSA(dim, heads)
        self.la2 = nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, mlp), nn.GELU(), nn.Linear(mlp, dim), nn.GELU())

    def forward(self, x):
        x = self.msa(self.la1(x)) + x
        return self.mlp(self.la2(x)) + x


class ViT(nn.Module):
    def __init__(self, img=32, patch=8, dim=48, heads=3, depth=2, mlp=96, classes=10):
        super().__init__()
        self.p = patch
        n = (img // patch) ** 2
        self.emb = nn.Linear(3 * patch * patch, dim)
        self.cls = nn.Parameter(torch.randn(1, 1, dim))
        self.pos = nn.Parameter(torch.randn(1, n + 1, dim))
        self.enc = nn.Sequential(*[Encoder(dim, heads, mlp) for _ in range(depth)])
        self.fc = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, classes))

    def forward(self, x):
        p = self.p
        x = x.unfold(2, p, p).unfold(3, p, p).permute(0, 2, 3, 4, 5, 1).flatten(1, 2).flatten(2)
        x = self.emb(x)
        x = torch.cat([self.cls.expand(x.size(0), -1, -1), x], dim=1) + self.pos
        return self.fc(self.enc(x)[:, 0])
