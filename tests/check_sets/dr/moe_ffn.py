"""Sparse mixture-of-experts feed-forward layer (replaces the MLP of a block).

A linear router scores the experts for each token; the `top_k` best are run, their outputs
weighted by the softmax of the chosen scores (renormalised over the chosen ones, as in
Mixtral). Tokens are processed independently of each other.

    x (B, T, dim) -> y (B, T, dim), load (n_experts,) share of the routed slots

Each expert is a SwiGLU MLP.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Expert(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.w1 = nn.Linear(dim, hidden, bias=False)
        self.w3 = nn.Linear(dim, hidden, bias=False)
        self.w2 = nn.Linear(hidden, dim, bias=False)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class SparseMoE(nn.Module):
    def __init__(self, dim=32, hidden=64, n_experts=4, top_k=2):
        super().__init__()
        self.top_k = top_k
        self.gate = nn.Linear(dim, n_experts, bias=False)
        self.experts = nn.ModuleList(Expert(dim, hidden) for _ in range(n_experts))

    def forward(self, x):
        flat = x.reshape(-1, x.shape[-1])
        score, chosen = self.gate(flat).topk(self.top_k, dim=-1)      # (tokens, k)
        weight = score.softmax(dim=-1)
        y = torch.zeros_like(flat)
        load = []
        for n, expert in enumerate(self.experts):
            tok, slot = torch.where(chosen == n)
            load.append(tok.numel() / chosen.numel())
            if tok.numel():
                y.index_add_(0, tok, weight[tok, slot, None] * expert(flat[tok]))
        return y.view_as(x), torch.tensor(load)
