"""Sparse mixture of experts with a noisy top-k router (Shazeer et al. 2017; Mixtral-style weights)."""
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
    """x: (B, L, dim). Each token goes to its `top_k` experts; their outputs are combined with the
    softmax of the selected router logits. Returns the output and the load-balancing loss."""

    def __init__(self, dim=24, hidden=32, n_experts=4, top_k=2, noise=0.1):
        super().__init__()
        self.top_k, self.n_experts, self.noise = top_k, n_experts, noise
        self.router = nn.Linear(dim, n_experts, bias=False)
        self.experts = nn.ModuleList(Expert(dim, hidden) for _ in range(n_experts))

    def forward(self, x):
        B, L, dim = x.shape
        flat = x.reshape(-1, dim)
        logits = self.router(flat)
        if self.training and self.noise > 0:
            logits = logits + self.noise * torch.randn_like(logits)
        top, chosen = logits.topk(self.top_k, dim=-1)
        weights = top.softmax(dim=-1)

        out = torch.zeros_like(flat)
        for e, expert in enumerate(self.experts):
            token, slot = (chosen == e).nonzero(as_tuple=True)
            if token.numel() == 0:
                continue
            contribution = expert(flat[token]) * weights[token, slot, None]
            out = out.index_add(0, token, contribution)

        probs = logits.softmax(dim=-1).mean(dim=0)
        load = F.one_hot(chosen, self.n_experts).float().sum(1).mean(dim=0) / self.top_k
        aux = self.n_experts * (probs * load).sum()
        return out.view(B, L, dim), aux


class MoEBlock(nn.Module):
    def __init__(self, dim=24, **kw):
        super().__init__()
        self.conv = nn.Conv1d(dim, dim, 3, padding=1, groups=dim)
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.moe = SparseMoE(dim, **kw)

    def forward(self, x):
        x = x + self.conv(self.norm1(x).transpose(1, 2)).transpose(1, 2)
        y, aux = self.moe(self.norm2(x))
        return x + y, aux
