"""Sparse mixture-of-experts feed-forward layer (top-2, SwiGLU experts).

The router keeps the two largest of E logits per token and softmaxes those two;
the token's output is the weighted sum of its two experts, plus a shared expert
that every token passes.  ``balance_loss`` is the Switch auxiliary loss of the
last call.
"""
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class MoEConfig:
    dim: int = 32
    hidden: int = 48
    n_experts: int = 6
    top_k: int = 2


class Expert(nn.Module):
    def __init__(self, dim: int, hidden: int):
        super().__init__()
        self.w1 = nn.Linear(dim, hidden, bias=False)
        self.w3 = nn.Linear(dim, hidden, bias=False)
        self.w2 = nn.Linear(hidden, dim, bias=False)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class SparseMoE(nn.Module):
    def __init__(self, cfg: MoEConfig = MoEConfig()):
        super().__init__()
        self.cfg = cfg
        self.router = nn.Linear(cfg.dim, cfg.n_experts, bias=False)
        self.experts = nn.ModuleList([Expert(cfg.dim, cfg.hidden) for _ in range(cfg.n_experts)])
        self.shared = Expert(cfg.dim, cfg.hidden)
        self.balance_loss = None

    def forward(self, x):
        shape = x.shape
        flat = x.reshape(-1, shape[-1])
        logits = self.router(flat).float()
        top, chosen = logits.topk(self.cfg.top_k, dim=-1)
        gate = top.softmax(dim=-1).to(flat.dtype)

        out = self.shared(flat)
        for e, expert in enumerate(self.experts):
            token, slot = (chosen == e).nonzero(as_tuple=True)
            if token.numel():
                out = out.index_add(0, token, expert(flat[token]) * gate[token, slot, None])

        load = F.one_hot(chosen, self.cfg.n_experts).float().sum(1).mean(0) / self.cfg.top_k
        importance = logits.softmax(-1).mean(0)
        self.balance_loss = self.cfg.n_experts * (load * importance).sum()
        return out.view(shape)


class MoEBlock(nn.Module):
    def __init__(self, cfg: MoEConfig = MoEConfig()):
        super().__init__()
        self.norm = nn.LayerNorm(cfg.dim)
        self.moe = SparseMoE(cfg)

    def forward(self, x):
        return x + self.moe(self.norm(x))
