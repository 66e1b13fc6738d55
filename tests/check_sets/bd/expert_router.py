"""Sparse mixture of experts for a translation model: top-2 routing with capacity.

Every token is scored against a key vector per expert; a softmax over the experts gives the
gates. Queries, keys and values in the usual sense do not occur.
"""
import math
from typing import NamedTuple

import torch
import torch.nn as nn
import torch.nn.functional as F


class Routing(NamedTuple):
    expert: torch.Tensor   # [N, 2]
    gate: torch.Tensor     # [N, 2]
    kept: torch.Tensor     # [N, 2] bool
    aux: torch.Tensor


class TopTwoRouter(nn.Module):
    def __init__(self, dim, n_experts, factor=1.25, noise=0.0):
        super().__init__()
        self.keys = nn.Parameter(torch.randn(n_experts, dim) * dim ** -0.5)
        self.n, self.factor, self.noise = n_experts, factor, noise

    def forward(self, x):
        score = x.float() @ self.keys.float().t() / math.sqrt(x.size(-1))
        if self.training and self.noise:
            score = score + self.noise * torch.randn_like(score)
        prob = score.softmax(dim=-1)
        gate, expert = prob.topk(2, dim=-1)
        gate = gate / gate.sum(-1, keepdim=True)

        capacity = math.ceil(self.factor * 2 * x.size(0) / self.n)
        onehot = F.one_hot(expert, self.n)                     # [N, 2, E]
        flat = onehot.transpose(0, 1).reshape(-1, self.n)      # first choices first
        rank = (flat.cumsum(0) * flat).sum(-1).view(2, -1).t()
        kept = rank <= capacity

        load = onehot[:, 0].float().mean(0)
        aux = self.n * (load * prob.mean(0)).sum()
        return Routing(expert, gate.to(x.dtype), kept, aux)


class MoE(nn.Module):
    def __init__(self, dim=32, hidden=64, n_experts=4):
        super().__init__()
        self.router = TopTwoRouter(dim, n_experts)
        self.w1 = nn.Parameter(torch.randn(n_experts, dim, hidden) * dim ** -0.5)
        self.w2 = nn.Parameter(torch.randn(n_experts, hidden, dim) * hidden ** -0.5)

    def forward(self, x):
        shape = x.shape
        x = x.reshape(-1, shape[-1])
        r = self.router(x)
        y = torch.zeros_like(x)
        for e in range(self.w1.size(0)):
            tok, choice = torch.where((r.expert == e) & r.kept)
            if tok.numel() == 0:
                continue
            h = F.relu(x[tok] @ self.w1[e]) @ self.w2[e]
            y.index_add_(0, tok, h * r.gate[tok, choice, None])
        return y.view(shape), r.aux


if __name__ == "__main__":
    y, aux = MoE()(torch.randn(2, 9, 32))
    print(y.shape, aux.item())
