"""Sparse mixture of experts with top-k softmax gating (Mixtral-like) and the Switch load-balancing loss."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Expert(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.w1 = nn.Linear(dim, hidden, bias=False)
        self.w2 = nn.Linear(hidden, dim, bias=False)
        self.w3 = nn.Linear(dim, hidden, bias=False)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class SparseMoE(nn.Module):
    """x: (B, T, dim) -> (same shape, auxiliary loss). Every token goes to its `top_k` experts; their
    gate values are renormalised to sum to one."""

    def __init__(self, dim=32, hidden=64, num_experts=6, top_k=2):
        super().__init__()
        self.num_experts, self.top_k = num_experts, top_k
        self.gate = nn.Linear(dim, num_experts, bias=False)
        self.experts = nn.ModuleList([Expert(dim, hidden) for _ in range(num_experts)])

    def forward(self, x):
        shape = x.shape
        x = x.reshape(-1, shape[-1])
        probs = F.softmax(self.gate(x), dim=-1)
        weight, chosen = probs.topk(self.top_k, dim=-1)
        weight = weight / weight.sum(dim=-1, keepdim=True)

        out = torch.zeros_like(x)
        for e, expert in enumerate(self.experts):
            token, slot = torch.where(chosen == e)
            if token.numel():
                out.index_add_(0, token, expert(x[token]) * weight[token, slot, None])

        load = F.one_hot(chosen, self.num_experts).float().sum(1).mean(0) / self.top_k
        aux = self.num_experts * (load * probs.mean(0)).sum()
        return out.view(shape), aux
