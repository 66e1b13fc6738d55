"""Building-site task planner: decoder block over the tasks done so far.

Attention with
  * soft cap:   s <- cap * tanh(s / cap), before masking;
  * a sink:     each head has a learned logit that joins the softmax but has no
                value, so a task may look at (almost) nothing and its weights
                over the tasks sum to less than one.
Causal, scores over sqrt(head_dim).
"""
from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class PlannerConfig:
    width: int = 24
    heads: int = 4
    cap: float = 8.0


class SinkAttention(nn.Module):
    def __init__(self, cfg: PlannerConfig):
        super().__init__()
        self.cfg = cfg
        self.wqkv = nn.Linear(cfg.width, 3 * cfg.width, bias=False)
        self.wo = nn.Linear(cfg.width, cfg.width, bias=False)
        self.sink = nn.Parameter(torch.zeros(cfg.heads).uniform_(-1, 1))

    def forward(self, x):
        b, t, w = x.shape
        h = self.cfg.heads
        q, k, v = self.wqkv(x).view(b, t, 3, h, w // h).unbind(2)
        s = torch.einsum("bihd,bjhd->bhij", q, k) / (w // h) ** 0.5
        s = self.cfg.cap * torch.tanh(s / self.cfg.cap)
        future = torch.triu(torch.ones(t, t, device=x.device), diagonal=1).bool()
        s = s.masked_fill(future, float("-inf"))
        sink = self.sink.view(1, h, 1, 1).expand(b, h, t, 1)
        p = torch.cat([s, sink], dim=-1).softmax(-1)[..., :-1]
        return self.wo(torch.einsum("bhij,bjhd->bihd", p, v).flatten(2))


class PlannerBlock(nn.Module):
    def __init__(self, cfg=PlannerConfig()):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(cfg.width), nn.LayerNorm(cfg.width)
        self.attn = SinkAttention(cfg)
        self.gate = nn.Linear(cfg.width, 2 * cfg.width)
        self.up = nn.Linear(cfg.width, 2 * cfg.width)
        self.down = nn.Linear(2 * cfg.width, cfg.width)

    def forward(self, tasks):
        x = tasks + self.attn(self.n1(tasks))
        y = self.n2(x)
        return x + self.down(torch.nn.functional.silu(self.gate(y)) * self.up(y))
