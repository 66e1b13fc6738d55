from dataclasses import dataclass
import torch
from torch import nn


@dataclass
class ReadoutCfg:
    width: int = 48
    heads: int = 6
    p: float = 0.1


class ClassReadout(nn.Module):
    """Last stage of the backbone: only the class token asks, patches are read (patches do not change).

    Heads are mixed by small learned matrices before and after the softmax.
    """

    def __init__(self, cfg: ReadoutCfg = ReadoutCfg()):
        super().__init__()
        self.cfg = cfg
        self.token = nn.Parameter(torch.randn(1, 1, cfg.width) * 0.02)
        self.norm = nn.LayerNorm(cfg.width)
        self.q = nn.Linear(cfg.width, cfg.width)
        self.kv = nn.Linear(cfg.width, 2 * cfg.width)
        self.pre = nn.Linear(cfg.heads, cfg.heads)
        self.post = nn.Linear(cfg.heads, cfg.heads)
        for m in (self.pre, self.post):
            nn.init.eye_(m.weight)
        self.drop = nn.Dropout(cfg.p)
        self.o = nn.Linear(cfg.width, cfg.width)

    def forward(self, patches):
        B, N, D = patches.shape
        h = self.cfg.heads
        d = D // h
        cls = self.token.expand(B, -1, -1)
        u = self.norm(torch.cat([cls, patches], 1))
        q = self.q(u[:, :1]).view(B, 1, h, d) * d ** -0.5
        k, v = self.kv(u).view(B, N + 1, 2, h, d).unbind(2)
        s = torch.einsum("bqhd,bkhd->bqkh", q, k)
        s = self.pre(s)
        w = self.drop(self.post(s.softmax(dim=2)))
        y = torch.einsum("bqkh,bkhd->bqhd", w, v).reshape(B, 1, D)
        return (cls + self.o(y)).squeeze(1)
