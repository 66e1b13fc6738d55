import torch
from torch import nn


class DilatedCausalAttention(nn.Module):
    """Position t looks at t, t-g, t-2g, ..., t-(taps-1)g (those that exist).

    cfg keys: width, heads, taps, gap
    """

    def __init__(self, cfg: dict):
        super().__init__()
        self.cfg = cfg
        w = cfg["width"]
        self.q = nn.Linear(w, w, bias=False)
        self.k = nn.Linear(w, w, bias=False)
        self.v = nn.Linear(w, w, bias=False)
        self.o = nn.Linear(w, w, bias=False)

    def forward(self, x):
        B, T, W = x.shape
        H, taps, gap = (self.cfg[n] for n in ("heads", "taps", "gap"))
        D = W // H
        where = torch.arange(T, device=x.device)[:, None] - gap * torch.arange(taps, device=x.device)
        exists = where >= 0
        where = where.clamp_min(0)

        q = self.q(x).view(B, T, H, D)
        k = self.k(x).view(B, T, H, D)[:, where]     # B T taps H D
        v = self.v(x).view(B, T, H, D)[:, where]
        logit = (q.unsqueeze(2) * k).sum(-1).mul(D ** -0.5)
        logit = torch.where(exists[None, :, :, None], logit, torch.finfo(logit.dtype).min)
        prob = logit.softmax(2)
        y = (prob.unsqueeze(-1) * v).sum(2)
        return self.o(y.reshape(B, T, W))


class ByteLM(nn.Module):
    def __init__(self, width=48, heads=4, taps=5, gaps=(1, 2, 4)):
        super().__init__()
        self.emb = nn.Embedding(256, width)
        self.att = nn.ModuleList(
            DilatedCausalAttention(dict(width=width, heads=heads, taps=taps, gap=g)) for g in gaps)
        self.norm = nn.ModuleList(nn.LayerNorm(width) for _ in gaps)
        self.head = nn.Linear(width, 256)

    def forward(self, b):
        h = self.emb(b)
        for n, a in zip(self.norm, self.att):
            h = h + a(n(h))
        return self.head(h)
