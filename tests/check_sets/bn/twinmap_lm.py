"""tiny LM with twin softmax maps (differential transformer, arXiv 2410.05258)"""
import math
import torch as th
import torch.nn as nn
import torch.nn.functional as F


def lambda_init(depth: int) -> float:
    return 0.8 - 0.6 * math.exp(-0.3 * depth)


class HeadNorm(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.w = nn.Parameter(th.ones(d))

    def forward(self, x):
        return F.rms_norm(x, (x.shape[-1],), self.w, 1e-5)


class TwinMapAttention(nn.Module):
    """
    h differential heads; each has two query/key halves of size d and one value
    of size 2d:

        out = (softmax(q1 k1) - lam * softmax(q2 k2)) v,   then norm per head,
        then * (1 - lam_init)

    lam = exp(lq1.lk1) - exp(lq2.lk2) + lam_init.  Causal.
    The weights of a row add up to 1 - lam.
    """

    def __init__(self, width, heads, depth):
        super().__init__()
        self.h = heads
        self.d = width // heads // 2
        self.wq = nn.Linear(width, width, bias=False)
        self.wk = nn.Linear(width, width, bias=False)
        self.wv = nn.Linear(width, width, bias=False)
        self.wo = nn.Linear(width, width, bias=False)
        self.lam0 = lambda_init(depth)
        self.lq1, self.lk1, self.lq2, self.lk2 = (
            nn.Parameter(th.randn(self.d) * 0.1) for _ in range(4)
        )
        self.norm = HeadNorm(2 * self.d)

    def forward(self, x):
        b, n, w = x.shape
        q = self.wq(x).view(b, n, 2 * self.h, self.d).transpose(1, 2)
        k = self.wk(x).view(b, n, 2 * self.h, self.d).transpose(1, 2)
        v = self.wv(x).view(b, n, self.h, 2 * self.d).transpose(1, 2)

        s = (q * self.d ** -0.5) @ k.mT
        s = s + th.full((n, n), float("-inf"), dtype=s.dtype, device=s.device).triu(1)
        a = F.softmax(s, dim=-1).view(b, self.h, 2, n, n)

        lam = th.exp(self.lq1 @ self.lk1) - th.exp(self.lq2 @ self.lk2) + self.lam0
        a = a[:, :, 0] - lam * a[:, :, 1]
        o = self.norm(a @ v) * (1 - self.lam0)
        return self.wo(o.transpose(1, 2).reshape(b, n, w))


class SwiGLU(nn.Module):
    def __init__(self, w):
        super().__init__()
        m = w * 8 // 3
        self.a, self.b, self.c = nn.Linear(w, m), nn.Linear(w, m), nn.Linear(m, w)

    def forward(self, x):
        return self.c(F.silu(self.a(x)) * self.b(x))


class TwinLM(nn.Module):
    def __init__(self, vocab=256, width=48, heads=3, layers=2, ctx=64):
        super().__init__()
        self.tok = nn.Embedding(vocab, width)
        self.pos = nn.Embedding(ctx, width)
        self.att = nn.ModuleList([TwinMapAttention(width, heads, i) for i in range(layers)])
        self.mlp = nn.ModuleList([SwiGLU(width) for _ in range(layers)])
        self.n = nn.ModuleList([nn.RMSNorm(width) for _ in range(2 * layers + 1)])
        self.out = nn.Linear(width, vocab, bias=False)

    def forward(self, ids):
        x = self.tok(ids) + self.pos(th.arange(ids.shape[1], device=ids.device))
        for i, (a, m) in enumerate(zip(self.att, self.mlp)):
            x = x + a(self.n[2 * i](x))
            x = x + m(self.n[2 * i + 1](x))
        return self.out(self.n[-1](x))

    @th.no_grad()
    def sample(self, ids, steps, temp=1.0):
        for _ in range(steps):
            p = (self(ids)[:, -1] / temp).softmax(-1)
            ids = th.cat([ids, th.multinomial(p, 1)], 1)
        return ids
