"""Sparse mixture-of-experts feed-forward layer (top-k routing) for the search ranker.

Router: logits = x W_r, softmax over the experts, keep the k largest, renormalise the
kept probabilities.  Every token goes through its k experts and the results are summed
with these weights.  Also returns the load-balancing loss of the Switch paper.
"""
import torch
from torch import nn
import torch.nn.functional as F


class Expert(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.w1 = nn.Linear(dim, hidden, bias=False)
        self.w2 = nn.Linear(hidden, dim, bias=False)
        self.w3 = nn.Linear(dim, hidden, bias=False)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class SparseExperts(nn.Module):
    def __init__(self, dim=32, hidden=64, n_experts=6, k=2):
        super().__init__()
        self.k, self.n = k, n_experts
        self.router = nn.Linear(dim, n_experts, bias=False)
        self.experts = nn.ModuleList(Expert(dim, hidden) for _ in range(n_experts))

    def forward(self, x):
        """x [B, T, dim] -> (y [B, T, dim], balance loss scalar)"""
        flat = x.reshape(-1, x.shape[-1])
        prob = self.router(flat).softmax(dim=-1)                 # [N, E]
        top, idx = prob.topk(self.k, dim=-1)
        top = top / top.sum(dim=-1, keepdim=True)

        y = torch.zeros_like(flat)
        for e, expert in enumerate(self.experts):
            token, slot = (idx == e).nonzero(as_tuple=True)
            if token.numel() == 0:
                continue
            part = expert(flat[token]) * top[token, slot].unsqueeze(-1)
            y = y.index_add(0, token, part)

        first = F.one_hot(idx[:, 0], self.n).to(prob.dtype)
        loss = self.n * (first.mean(0) * prob.mean(0)).sum()
        return y.view_as(x), loss


class RankerLayer(nn.Module):
    """Token-wise only: features of a result are never mixed with other results."""

    def __init__(self, dim=32):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.moe = SparseExperts(dim)

    def forward(self, x):
        y, loss = self.moe(self.norm(x))
        return x + y, loss
