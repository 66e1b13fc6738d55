"""Top-k mixture-of-experts feed-forward with load balancing (Switch / Mixtral)."""
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class RouterConfig:
    dim: int = 32
    hidden: int = 64
    num_experts: int = 8
    top_k: int = 2
    jitter: float = 0.0
    aux_weight: float = 1e-2


class Expert(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.w1 = nn.Linear(dim, hidden, bias=False)
        self.w2 = nn.Linear(hidden, dim, bias=False)
        self.w3 = nn.Linear(dim, hidden, bias=False)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class KeyedRouter(nn.Module):
    """Routes each token by the similarity of its query to learnt expert keys."""

    def __init__(self, cfg: RouterConfig):
        super().__init__()
        self.cfg = cfg
        self.query = nn.Linear(cfg.dim, cfg.dim, bias=False)
        self.keys = nn.Parameter(torch.randn(cfg.num_experts, cfg.dim) * cfg.dim**-0.5)

    def forward(self, tokens):
        q = self.query(tokens)
        if self.training and self.cfg.jitter > 0:
            q = q * torch.empty_like(q).uniform_(1 - self.cfg.jitter, 1 + self.cfg.jitter)
        logits = q @ self.keys.t() / self.cfg.dim**0.5
        probs = F.softmax(logits.float(), dim=-1)
        weight, index = probs.topk(self.cfg.top_k, dim=-1)
        weight = weight / weight.sum(-1, keepdim=True)
        return weight.to(tokens.dtype), index, self._balance(probs, index)

    def _balance(self, probs, index):
        n = self.cfg.num_experts
        share = F.one_hot(index, n).float().sum(1).mean(0) / self.cfg.top_k
        return self.cfg.aux_weight * n * (share * probs.mean(0)).sum()


class MoELayer(nn.Module):
    def __init__(self, cfg: RouterConfig):
        super().__init__()
        self.router = KeyedRouter(cfg)
        self.experts = nn.ModuleList(Expert(cfg.dim, cfg.hidden) for _ in range(cfg.num_experts))

    def forward(self, x):
        flat = x.reshape(-1, x.shape[-1])
        weight, index, aux = self.router(flat)
        out = torch.zeros_like(flat)
        for e, expert in enumerate(self.experts):
            row, slot = (index == e).nonzero(as_tuple=True)
            if row.numel():
                out.index_add_(0, row, expert(flat[row]) * weight[row, slot, None])
        return out.view_as(x), aux
