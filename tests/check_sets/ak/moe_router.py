"""Sparse mixture-of-experts feed-forward with top-k routing and load-balancing losses."""
from dataclasses import dataclass
from typing import Tuple

import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class MoeConfig:
    hidden_size: int = 64
    intermediate_size: int = 128
    num_local_experts: int = 8
    num_experts_per_tok: int = 2
    router_jitter_noise: float = 0.0
    router_aux_loss_coef: float = 0.01
    router_z_loss_coef: float = 0.001


class ExpertMLP(nn.Module):
    """SwiGLU feed-forward, one expert."""

    def __init__(self, config: MoeConfig):
        super().__init__()
        self.w1 = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.w2 = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)
        self.w3 = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class SparseMoeBlock(nn.Module):
    """Each token goes to its k best experts; their outputs are mixed with the softmax weights of
    the router, brought to sum one again over the k chosen."""

    def __init__(self, config: MoeConfig):
        super().__init__()
        self.num_experts = config.num_local_experts
        self.top_k = config.num_experts_per_tok
        self.jitter_noise = config.router_jitter_noise
        self.gate = nn.Linear(config.hidden_size, self.num_experts, bias=False)
        self.experts = nn.ModuleList(ExpertMLP(config) for _ in range(self.num_experts))

    def forward(self, hidden_states: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor]:
        batch, length, dim = hidden_states.shape
        if self.training and self.jitter_noise > 0:
            noise = torch.empty_like(hidden_states)
            hidden_states = hidden_states * noise.uniform_(1 - self.jitter_noise, 1 + self.jitter_noise)
        tokens = hidden_states.view(-1, dim)
        router_logits = self.gate(tokens)

        weights = F.softmax(router_logits, dim=1, dtype=torch.float)
        weights, chosen = torch.topk(weights, self.top_k, dim=-1)
        weights = weights / weights.sum(dim=-1, keepdim=True)
        weights = weights.to(tokens.dtype)

        out = torch.zeros_like(tokens)
        for e, expert in enumerate(self.experts):
            row, slot = torch.where(chosen == e)
            if row.numel() == 0:
                continue
            out.index_add_(0, row, expert(tokens[row]) * weights[row, slot, None])
        return out.view(batch, length, dim), router_logits


def load_balancing_loss(router_logits, num_experts, top_k, keep=None):
    """Fraction of tokens times mean probability, summed over experts (Switch, eq. 4-6)."""
    probs = router_logits.softmax(-1)
    chosen = probs.topk(top_k, dim=-1).indices
    hit = F.one_hot(chosen, num_experts).sum(1).to(probs.dtype)
    if keep is None:
        return num_experts * (hit.mean(0) * probs.mean(0)).sum()
    w = keep.reshape(-1, 1).to(probs.dtype)
    n = w.sum().clamp(min=1)
    return num_experts * (((hit * w).sum(0) / n) * ((probs * w).sum(0) / n)).sum()


def router_z_loss(router_logits):
    return torch.logsumexp(router_logits, dim=-1).pow(2).mean()


class MoeLayer(nn.Module):
    def __init__(self, config: MoeConfig):
        super().__init__()
        self.config = config
        self.norm = nn.LayerNorm(config.hidden_size)
        self.moe = SparseMoeBlock(config)

    def forward(self, x, keep=None):
        y, logits = self.moe(self.norm(x))
        c = self.config
        aux = c.router_aux_loss_coef * load_balancing_loss(logits, c.num_local_experts,
                                                           c.num_experts_per_tok, keep)
        return x + y, aux + c.router_z_loss_coef * router_z_loss(logits)


class CapacityMeter:
    """Counts how many tokens every expert got since the last reset."""

    def __init__(self, num_experts):
        self.counts = torch.zeros(num_experts, dtype=torch.long)

    def update(self, router_logits, top_k):
        idx = router_logits.topk(top_k, dim=-1).indices.flatten()
        self.counts += torch.bincount(idx, minlength=len(self.counts))

    def imbalance(self):
        c = self.counts.float()
        return (c.max() / c.mean().clamp(min=1e-9)).item()

    def reset(self):
        self.counts.zero_()
