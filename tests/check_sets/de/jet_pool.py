import torch
import torch.nn as nn


class JetPool(nn.Module):
    """Pools the particles of a jet onto a few learned seeds.

    parts: (B, N, f), real: (B, N) bool. Returns (B, n_seeds, dim).
    A jet without real particles yields what the seeds alone give.
    """

    def __init__(self, opts):
        super().__init__()
        f, self.dim = opts["features"], opts.get("dim", 32)
        self.heads = opts.get("heads", 4)
        self.seeds = nn.Parameter(torch.randn(opts.get("seeds", 2), self.dim) * 0.3)
        self.enc = nn.Sequential(nn.Linear(f, self.dim), nn.ReLU(), nn.Linear(self.dim, self.dim))
        self.fq, self.fk, self.fv, self.fo = (nn.Linear(self.dim, self.dim) for _ in range(4))
        self.ln0, self.ln1 = nn.LayerNorm(self.dim), nn.LayerNorm(self.dim)
        self.ff = nn.Sequential(nn.Linear(self.dim, self.dim), nn.ReLU())

    def forward(self, parts, real):
        B, N, _ = parts.shape
        S, H, d = self.seeds.size(0), self.heads, self.dim // self.heads
        e = self.enc(parts)
        q = self.fq(self.seeds).view(S, H, d)
        k = self.fk(e).view(B, N, H, d)
        v = self.fv(e).view(B, N, H, d)
        logits = torch.einsum("shd,bnhd->bhsn", q, k).div(d ** 0.5)
        absent = ~real[:, None, None]
        w = logits.masked_fill(absent, torch.finfo(logits.dtype).min).softmax(-1)
        w = w.masked_fill(absent, 0.0)
        got = torch.einsum("bhsn,bnhd->bshd", w, v).flatten(2)
        y = self.ln0(self.seeds + self.fo(got))
        return self.ln1(y + self.ff(y))
