import torch
from torch import nn
from dataclasses import dataclass


@dataclass(frozen=True)
class CastConfig:
    context: int = 96
    patch: int = 8
    horizon: int = 24
    d_model: int = 64
    n_heads: int = 4
    depth: int = 2


class SeriesAttention(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.H = cfg.n_heads
        self.E = cfg.d_model // cfg.n_heads
        self.Wq = nn.Linear(cfg.d_model, cfg.d_model)
        self.Wk = nn.Linear(cfg.d_model, cfg.d_model)
        self.Wv = nn.Linear(cfg.d_model, cfg.d_model)
        self.Wo = nn.Linear(cfg.d_model, cfg.d_model)

    def forward(self, x):
        B, P, D = x.shape
        H, E = self.H, self.E
        queries = self.Wq(x).view(B, P, H, E)
        keys = self.Wk(x).view(B, P, H, E)
        values = self.Wv(x).view(B, P, H, E)

        scores = torch.einsum("bphe,bshe->bhps", queries, keys)
        A = torch.softmax(scores * E ** -0.5, dim=-1)
        V = torch.einsum("bhps,bshe->bhpe", A, values)
        return self.Wo(V.reshape(B, P, H * E))


class PatchCast(nn.Module):
    """Channel independent patch forecaster. (B, context) -> (B, horizon)"""

    def __init__(self, cfg: CastConfig = CastConfig()):
        super().__init__()
        self.cfg = cfg
        n = cfg.context // cfg.patch
        self.embed = nn.Linear(cfg.patch, cfg.d_model)
        self.pos = nn.Parameter(torch.randn(n, cfg.d_model) * 0.02)
        self.blocks = nn.ModuleList()
        for _ in range(cfg.depth):
            self.blocks.append(nn.ModuleList([
                nn.LayerNorm(cfg.d_model), SeriesAttention(cfg),
                nn.LayerNorm(cfg.d_model),
                nn.Sequential(nn.Linear(cfg.d_model, 128), nn.GELU(), nn.Linear(128, cfg.d_model)),
            ]))
        self.head = nn.Linear(n * cfg.d_model, cfg.horizon)

    def forward(self, y):
        mu, sd = y.mean(1, keepdim=True), y.std(1, keepdim=True) + 1e-5
        z = ((y - mu) / sd).unfold(1, self.cfg.patch, self.cfg.patch)
        z = self.embed(z) + self.pos
        for n1, att, n2, ff in self.blocks:
            z = z + att(n1(z))
            z = z + ff(n2(z))
        return self.head(z.flatten(1)) * sd + mu
