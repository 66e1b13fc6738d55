"""Sparse mixture-of-experts feed-forward layer with a shared expert (DeepSeekMoE flavour).

Router: softmax over the routed experts, top-k kept and renormalised.  Every token also
passes through the shared expert.  Experts are SwiGLU MLPs.

x (B, T, D) -> (B, T, D), plus the load-balancing loss  E * sum_e f_e * P_e, where f_e is
the share of (token, slot) assignments that went to expert e and P_e its mean probability.
"""
import torch
import torch.nn.functional as F
from torch import nn


class SwiGLU(nn.Module):
    def __init__(self, D: int, hidden: int) -> None:
        super().__init__()
        self.gate = nn.Linear(D, hidden, bias=False)
        self.up = nn.Linear(D, hidden, bias=False)
        self.down = nn.Linear(hidden, D, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(F.silu(self.gate(x)) * self.up(x))


class MoE(nn.Module):
    def __init__(self, D: int, hidden: int, n_experts: int = 8, k: int = 2) -> None:
        super().__init__()
        self.k, self.n = k, n_experts
        self.router = nn.Linear(D, n_experts, bias=False)
        self.experts = nn.ModuleList(SwiGLU(D, hidden) for _ in range(n_experts))
        self.shared = SwiGLU(D, hidden)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        flat = x.reshape(-1, x.shape[-1])
        prob = self.router(flat).float().softmax(dim=-1)
        top, idx = prob.topk(self.k, dim=-1)
        top = (top / top.sum(-1, keepdim=True)).to(x.dtype)

        y = self.shared(flat)
        for e, expert in enumerate(self.experts):
            token, place = (idx == e).nonzero(as_tuple=True)
            if token.numel():
                y = y.index_add(0, token, expert(flat[token]) * top[token, place, None])

        load = F.one_hot(idx, self.n).float().mean(dim=(0, 1))
        aux = self.n * (load * prob.mean(0)).sum()
        return y.view_as(x), aux
