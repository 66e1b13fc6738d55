"""Sparse mixture of experts for the ad ranking tower."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class TopKMoE(nn.Module):
    """Each row is sent to its k best experts; their outputs are mixed with the
    softmax of the k chosen router logits (the others count zero).

    x: (B, dim) -> (B, dim)
    """

    def __init__(self, dim=16, hidden=32, n_experts=4, k=2):
        super().__init__()
        self.k = k
        self.n_experts = n_experts
        self.router = nn.Linear(dim, n_experts, bias=False)
        self.w_up = nn.Parameter(torch.randn(n_experts, dim, hidden) * dim**-0.5)
        self.w_down = nn.Parameter(torch.randn(n_experts, hidden, dim) * hidden**-0.5)

    def forward(self, x):
        scores = self.router(x)
        top, which = scores.topk(self.k, dim=-1)
        weight = F.softmax(top, dim=-1)
        out = torch.zeros_like(x)
        for e in range(self.n_experts):
            row, slot = (which == e).nonzero(as_tuple=True)
            if row.numel() == 0:
                continue
            y = F.silu(x[row] @ self.w_up[e]) @ self.w_down[e]
            out = out.index_add(0, row, y * weight[row, slot].unsqueeze(-1))
        return out

    def load_balance(self, x):
        """Switch-style auxiliary loss, 1 when the experts are used evenly."""
        probs = F.softmax(self.router(x), dim=-1)
        first = F.one_hot(probs.argmax(-1), self.n_experts).to(probs.dtype)
        return self.n_experts * (probs.mean(0) * first.mean(0)).sum()
