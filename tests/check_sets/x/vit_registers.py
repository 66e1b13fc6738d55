import math
import torch
import torch.nn as nn


class MultiHeadSelfAttention(nn.Module):
    def __init__(self, feats: int, head: int = 8, dropout: float = 0.):
        super().__init__()
        self.head = head
        self.feats = feats
        self.sqrt_d = self.feats ** 0.5
        self.q = nn.Linear(feats, feats)
        self.k = nn.Linear(feats, feats)
        self.v = nn.Linear(feats, feats)
        self.o = nn.Linear(feats, feats)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        b, n, f = x.size()
        q = self.q(x).view(b, n, self.head, f // self.head).transpose(1, 2)
        k = self.k(x).view(b, n, self.head, f // self.head).transpose(1, 2)
        v = self.v(x).view(b, n, self.head, f // self.head).transpose(1, 2)
        score = torch.softmax(torch.einsum("bhif,bhjf->bhij", q, k) / self.sqrt_d, dim=-1)  # (b,h,n,n)
        attn = torch.einsum("bhij,bhjf->bihf", score, v)
        return self.dropout(self.o(attn.flatten(2)))


class EncoderBlock(nn.Module):
    def __init__(self, feats, mlp_hidden, head, dropout=0.):
        super().__init__()
        self.la1 = nn.LayerNorm(feats)
        self.msa = MultiHeadSelfAttention(feats, head, dropout)
        self.la2 = nn.LayerNorm(feats)
        self.mlp = nn.Sequential(nn.Linear(feats, mlp_hidden), nn.GELU(), nn.Linear(mlp_hidden, feats), nn.GELU())

    def forward(self, x):
        out = self.msa(self.la1(x)) + x
        return self.mlp(self.la2(out)) + out


class ViTReg(nn.Module):
    """ViT with CLS and register tokens ("Vision transformers need registers")"""

    def __init__(self, img=16, patch=4, in_c=3, num_classes=10, hidden=48, heads=4, layers=2, n_reg=4):
        super().__init__()
        self.patch = nn.Conv2d(in_c, hidden, patch, stride=patch)
        n = (img // patch) ** 2
        self.cls = nn.Parameter(torch.randn(1, 1, hidden) * .02)
        self.reg = nn.Parameter(torch.randn(1, n_reg, hidden) * .02)
        self.pos = nn.Parameter(torch.randn(1, n + 1, hidden) * .02)
        self.enc = nn.Sequential(*[EncoderBlock(hidden, hidden * 2, heads) for _ in range(layers)])
        self.fc = nn.Sequential(nn.LayerNorm(hidden), nn.Linear(hidden, num_classes))

    def forward(self, x):
        """x: (B, 3, img, img)"""
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls.expand(x.size(0), -1, -1), x], 1) + self.pos
        x = torch.cat([x, self.reg.expand(x.size(0), -1, -1)], 1)
        x = self.enc(x)
        return self.fc(x[:, 0])
