"""Mixture of experts feed-forward layer with top-k routing and capacity limit."""
import math
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class MoEConfig:
    dim: int = 32
    hidden: int = 64
    n_experts: int = 8
    top_k: int = 2
    capacity_factor: float = 1.5
    jitter: float = 0.0


class Expert(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.w1, self.w2, self.w3 = nn.Linear(dim, hidden, bias=False), nn.Linear(hidden, dim, bias=False), nn.Linear(dim, hidden, bias=False)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class TokenRouter(nn.Module):
    """Scores of each token for each expert; softmax over the experts, the k best renormalised."""

    def __init__(self, cfg: MoEConfig):
        super().__init__()
        self.cfg = cfg
        self.query = nn.Linear(cfg.dim, cfg.n_experts, bias=False)

    def forward(self, x):
        if self.training and self.cfg.jitter:
            x = x * torch.empty_like(x).uniform_(1 - self.cfg.jitter, 1 + self.cfg.jitter)
        probs = self.query(x).float().softmax(dim=-1)
        w, idx = probs.topk(self.cfg.top_k, dim=-1)
        return w / w.sum(-1, keepdim=True), idx, probs


class ExpertLayer(nn.Module):
    def __init__(self, cfg: MoEConfig):
        super().__init__()
        self.cfg = cfg
        self.router = TokenRouter(cfg)
        self.experts = nn.ModuleList(Expert(cfg.dim, cfg.hidden) for _ in range(cfg.n_experts))

    def forward(self, x, mask=None):
        """x [B, L, dim]; mask bool [B, L], False = padding, goes to no expert.

        Returns the output and the balance loss.
        """
        shape = x.shape
        flat = x.reshape(-1, shape[-1])
        live = torch.ones(len(flat), dtype=torch.bool, device=x.device) if mask is None else mask.reshape(-1)
        w, idx, probs = self.router(flat)
        cap = max(1, math.ceil(self.cfg.capacity_factor * len(flat) * self.cfg.top_k / self.cfg.n_experts))
        out = torch.zeros_like(flat)
        for e, expert in enumerate(self.experts):
            tok, slot = ((idx == e) & live[:, None]).nonzero(as_tuple=True)
            tok, slot = tok[:cap], slot[:cap]
            if tok.numel():
                y = expert(flat[tok]) * w[tok, slot].to(x.dtype).unsqueeze(-1)
                out = out.index_add(0, tok, y)
        return out.view(shape), self.balance(probs[live], idx[live])

    def balance(self, probs, idx):
        E = self.cfg.n_experts
        share = F.one_hot(idx[:, 0], E).float().mean(0)
        return E * (share * probs.mean(0)).sum()


def router_z_loss(logits):
    return torch.logsumexp(logits.float(), -1).pow(2).mean()
