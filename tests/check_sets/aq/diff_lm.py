"""Small language model with the differential attention of Ye et al. (2024)."""
import math
import torch
import torch.nn.functional as F
from torch import nn


def lambda_init_fn(depth):
    return 0.8 - 0.6 * math.exp(-0.3 * depth)


class RMSNorm(nn.Module):
    def __init__(self, d, eps=1e-5):
        super().__init__()
        self.eps = eps
        self.g = nn.Parameter(torch.ones(d))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.g


class DiffHeads(nn.Module):
    """Causal. Each head holds two query/key groups of size d and one value of size 2d:
    out = (softmax(q1 k1 / sqrt d) - lambda * softmax(q2 k2 / sqrt d)) v, normed per head
    and multiplied with (1 - lambda_init)."""

    def __init__(self, width, heads, depth):
        super().__init__()
        self.h = heads
        self.d = width // heads // 2
        self.wq = nn.Linear(width, width, bias=False)
        self.wk = nn.Linear(width, width, bias=False)
        self.wv = nn.Linear(width, width, bias=False)
        self.wo = nn.Linear(width, width, bias=False)
        self.l_init = lambda_init_fn(depth)
        self.lq1, self.lk1, self.lq2, self.lk2 = (nn.Parameter(torch.randn(self.d) * 0.1) for _ in range(4))
        self.subln = RMSNorm(2 * self.d)

    def lam(self):
        a = torch.exp((self.lq1 * self.lk1).sum())
        b = torch.exp((self.lq2 * self.lk2).sum())
        return a - b + self.l_init

    def forward(self, x):
        b, t, _ = x.shape
        q = self.wq(x).view(b, t, self.h, 2, self.d)
        k = self.wk(x).view(b, t, self.h, 2, self.d)
        v = self.wv(x).view(b, t, self.h, 2 * self.d).transpose(1, 2)
        s = torch.einsum("bihgd,bjhgd->bhgij", q, k) / math.sqrt(self.d)
        future = torch.ones(t, t, dtype=torch.bool, device=x.device).triu(1)
        p = F.softmax(s.masked_fill(future, float("-inf")), dim=-1)
        p = p[:, :, 0] - self.lam() * p[:, :, 1]
        o = self.subln(p @ v) * (1 - self.l_init)
        return self.wo(o.transpose(1, 2).reshape(b, t, -1))


class Block(nn.Module):
    def __init__(self, width, heads, depth):
        super().__init__()
        self.n1, self.n2 = RMSNorm(width), RMSNorm(width)
        self.att = DiffHeads(width, heads, depth)
        self.gate, self.up = nn.Linear(width, 2 * width), nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)

    def forward(self, x):
        x = x + self.att(self.n1(x))
        y = self.n2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class LM(nn.Module):
    def __init__(self, vocab=256, width=64, heads=4, layers=2):
        super().__init__()
        self.emb = nn.Embedding(vocab, width)
        self.blocks = nn.ModuleList(Block(width, heads, i) for i in range(layers))
        self.norm = RMSNorm(width)

    def forward(self, ids):
        x = self.emb(ids)
        for blk in self.blocks:
            x = blk(x)
        return self.norm(x) @ self.emb.weight.t()
