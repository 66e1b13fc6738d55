"""Crisis-hotline triage: top-k routing of messages to specialist experts.

Sparse mixture of experts after Switch / GShard, with the load-balancing loss.
Experts: self-harm, domestic violence, addiction, grief, crank calls, other.
"""
from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn as nn
import torch.nn.functional as F


class Routing(NamedTuple):
    index: torch.Tensor      # [N, k]
    weight: torch.Tensor     # [N, k], sums to 1
    balance: torch.Tensor    # scalar


class TriageRouter(nn.Module):
    """Scores every message against a learned key per expert, keeps the best k."""

    def __init__(self, width: int, n_expert: int = 6, k: int = 2, noise: float = 0.0):
        super().__init__()
        self.query = nn.Linear(width, width, bias=False)
        self.expert_keys = nn.Parameter(torch.randn(n_expert, width) * width ** -0.5)
        self.k, self.noise, self.n_expert = k, noise, n_expert

    def forward(self, x: torch.Tensor) -> Routing:
        logits = self.query(x) @ self.expert_keys.t()
        if self.training and self.noise:
            logits = logits + self.noise * torch.randn_like(logits)
        probs = F.softmax(logits, dim=-1, dtype=torch.float32)
        top, idx = probs.topk(self.k, dim=-1)
        weight = top / top.sum(-1, keepdim=True)
        used = F.one_hot(idx[:, 0], self.n_expert).float().mean(0)
        balance = self.n_expert * (used * probs.mean(0)).sum()
        return Routing(idx, weight.to(x.dtype), balance)


class Expert(nn.Module):
    def __init__(self, width: int, hidden: int):
        super().__init__()
        self.gate = nn.Linear(width, hidden, bias=False)
        self.value = nn.Linear(width, hidden, bias=False)
        self.out = nn.Linear(hidden, width, bias=False)

    def forward(self, x):
        return self.out(F.silu(self.gate(x)) * self.value(x))


class TriageMoE(nn.Module):
    """[B, T, width] -> [B, T, width]; also the balance loss."""

    def __init__(self, width: int = 32, n_expert: int = 6, k: int = 2):
        super().__init__()
        self.router = TriageRouter(width, n_expert, k)
        self.experts = nn.ModuleList(Expert(width, 2 * width) for _ in range(n_expert))

    def forward(self, x):
        flat = x.reshape(-1, x.shape[-1])
        r = self.router(flat)
        out = torch.zeros_like(flat)
        for e, expert in enumerate(self.experts):
            row, slot = (r.index == e).nonzero(as_tuple=True)
            if row.numel():
                out.index_add_(0, row, expert(flat[row]) * r.weight[row, slot, None])
        return out.view_as(x), r.balance


def escalate(logits: torch.Tensor, floor: float = 0.35) -> torch.Tensor:
    """A human takes over whenever the self-harm class passes the floor."""
    return logits.softmax(-1)[..., 0] > floor
