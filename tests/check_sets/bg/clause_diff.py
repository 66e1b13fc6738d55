"""Contract clause reader with differential attention (Ye et al. 2024).

Two softmax maps per head, the second is subtracted with weight lambda.  Weights may be
negative and rows sum to 1 - lambda; this is the method.
"""
import math
import torch
import torch.nn as nn


def lambda_init(depth: int) -> float:
    return 0.8 - 0.6 * math.exp(-0.3 * depth)


class HeadRMS(nn.Module):
    def __init__(self, d, eps=1e-5):
        super().__init__()
        self.g, self.eps = nn.Parameter(torch.ones(d)), eps

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.g


class DiffAttention(nn.Module):
    """Causal. q and k have 2*heads half-heads of width d = dim/heads/2, v heads of width 2d."""

    def __init__(self, dim, heads, depth=0):
        super().__init__()
        self.h, self.d = heads, dim // heads // 2
        self.wq, self.wk = nn.Linear(dim, dim, bias=False), nn.Linear(dim, dim, bias=False)
        self.wv, self.wo = nn.Linear(dim, dim, bias=False), nn.Linear(dim, dim, bias=False)
        self.lq1, self.lk1, self.lq2, self.lk2 = (nn.Parameter(torch.randn(self.d) * 0.1) for _ in range(4))
        self.l0 = lambda_init(depth)
        self.sub = HeadRMS(2 * self.d)

    def lam(self):
        return torch.exp((self.lq1 * self.lk1).sum()) - torch.exp((self.lq2 * self.lk2).sum()) + self.l0

    def forward(self, x):
        b, t, c = x.shape
        q = self.wq(x).view(b, t, self.h, 2, self.d).permute(3, 0, 2, 1, 4)
        k = self.wk(x).view(b, t, self.h, 2, self.d).permute(3, 0, 2, 1, 4)
        v = self.wv(x).view(b, t, self.h, 2 * self.d).transpose(1, 2)
        s = q @ k.transpose(-1, -2) / math.sqrt(self.d)
        later = torch.ones(t, t, dtype=torch.bool, device=x.device).triu(1)
        a = s.masked_fill(later, -torch.inf).softmax(-1)
        y = (a[0] - self.lam() * a[1]) @ v
        y = self.sub(y) * (1 - self.l0)
        return self.wo(y.transpose(1, 2).reshape(b, t, c))


class ClauseTagger(nn.Module):
    def __init__(self, vocab, tags, dim=64, depth=2):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.att = nn.ModuleList(DiffAttention(dim, 4, i) for i in range(depth))
        self.cls = nn.Linear(dim, tags)

    def forward(self, ids):
        x = self.emb(ids)
        for a in self.att:
            x = x + a(x)
        return self.cls(x)
