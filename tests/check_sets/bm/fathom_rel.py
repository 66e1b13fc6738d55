import math
import torch
import torch.nn as nn

# Sidescan sonar, ping-by-ping encoder.  Positions are pings, so what matters is
# how far apart two pings are, on a log scale, in both directions.

DEFAULTS = dict(d_model=40, d_kv=6, n_heads=5, buckets=16, far=64, n_layers=2, d_ff=96, drop=0.0)


def bucket_of(rel, n, far):
    """T5 buckets, both directions.  rel = key position - query position."""
    n //= 2
    out = (rel > 0).long() * n
    rel = rel.abs()
    near = n // 2
    big = near + (torch.log(rel.clamp_min(1).float() / near) / math.log(far / near) * (n - near)).long()
    return out + torch.where(rel < near, rel, big.clamp_max(n - 1))


class PingAttention(nn.Module):
    """
    T5 flavour.  Scores are plain q.k plus the bucket bias: there is on purpose
    no 1/sqrt(d_kv), exactly as in the T5 checkpoints we start from; the factor
    sits in the initialisation of ``q`` (std = (d_model * d_kv) ** -0.5).

    d_kv is independent of d_model // n_heads.
    """

    def __init__(self, cfg, has_bias_table):
        super().__init__()
        self.cfg = cfg
        inner = cfg["n_heads"] * cfg["d_kv"]
        self.q = nn.Linear(cfg["d_model"], inner, bias=False)
        self.k = nn.Linear(cfg["d_model"], inner, bias=False)
        self.v = nn.Linear(cfg["d_model"], inner, bias=False)
        self.o = nn.Linear(inner, cfg["d_model"], bias=False)
        self.drop = nn.Dropout(cfg["drop"])
        self.table = nn.Embedding(cfg["buckets"], cfg["n_heads"]) if has_bias_table else None
        nn.init.normal_(self.q.weight, std=(cfg["d_model"] * cfg["d_kv"]) ** -0.5)
        nn.init.normal_(self.k.weight, std=cfg["d_model"] ** -0.5)
        nn.init.normal_(self.v.weight, std=cfg["d_model"] ** -0.5)
        nn.init.normal_(self.o.weight, std=inner ** -0.5)

    def bias(self, nq, nk, device):
        rel = torch.arange(nk, device=device)[None] - torch.arange(nq, device=device)[:, None]
        b = self.table(bucket_of(rel, self.cfg["buckets"], self.cfg["far"]))
        return b.permute(2, 0, 1)[None]

    def forward(self, x, keep=None, pos_bias=None):
        """keep [B, N]: 1 for a ping that was recorded, 0 for a dropped one (not attended to).

        pos_bias comes from the first layer, which is the only one with a table.
        Returns (y, pos_bias).
        """
        B, N, _ = x.shape
        h, d = self.cfg["n_heads"], self.cfg["d_kv"]
        q, k, v = (f(x).unflatten(-1, (h, d)).transpose(1, 2) for f in (self.q, self.k, self.v))
        if pos_bias is None:
            pos_bias = self.bias(N, N, x.device)
        s = torch.matmul(q, k.transpose(3, 2)) + pos_bias
        if keep is not None:
            s = s.masked_fill(keep[:, None, None, :] == 0, torch.finfo(s.dtype).min)
        w = self.drop(torch.softmax(s.float(), -1).type_as(s))
        y = torch.matmul(w, v).transpose(1, 2).flatten(2)
        return self.o(y), pos_bias


class RMSNorm(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.g = nn.Parameter(torch.ones(d))

    def forward(self, x):
        return self.g * x * (x.pow(2).mean(-1, keepdim=True) + 1e-6).rsqrt()


class PingEncoder(nn.Module):
    def __init__(self, **over):
        super().__init__()
        cfg = {**DEFAULTS, **over}
        L, d = cfg["n_layers"], cfg["d_model"]
        self.att = nn.ModuleList(PingAttention(cfg, i == 0) for i in range(L))
        self.ff = nn.ModuleList(
            nn.Sequential(nn.Linear(d, cfg["d_ff"], bias=False), nn.ReLU(), nn.Linear(cfg["d_ff"], d, bias=False))
            for _ in range(L))
        self.na = nn.ModuleList(RMSNorm(d) for _ in range(L))
        self.nf = nn.ModuleList(RMSNorm(d) for _ in range(L))
        self.last = RMSNorm(d)

    def forward(self, x, keep=None):
        pb = None
        for a, f, n1, n2 in zip(self.att, self.ff, self.na, self.nf):
            y, pb = a(n1(x), keep, pb)
            x = x + y
            x = x + f(n2(x))
        return self.last(x)
