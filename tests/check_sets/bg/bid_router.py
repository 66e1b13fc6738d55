"""Bid price model: sparse mixture of experts over ad slots."""
import torch
from torch import nn
import torch.nn.functional as F


class BidRouter(nn.Module):
    """Top-k gate. x [N, D] -> (weights [N, k], expert ids [N, k], load loss)."""

    def __init__(self, dim, experts, k=2):
        super().__init__()
        self.k = k
        self.keys = nn.Parameter(torch.randn(experts, dim) * dim ** -0.5)

    def forward(self, x):
        logits = x @ self.keys.t()
        probs = logits.softmax(dim=-1)
        w, ids = probs.topk(self.k, dim=-1)
        w = w / w.sum(-1, keepdim=True)
        share = F.one_hot(ids, probs.shape[-1]).float().mean((0, 1))
        balance = probs.shape[-1] * (share * probs.mean(0)).sum()
        return w, ids, balance


class Expert(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.up, self.down = nn.Linear(dim, hidden), nn.Linear(hidden, dim)

    def forward(self, x):
        return self.down(F.silu(self.up(x)))


class BidMixture(nn.Module):
    def __init__(self, dim=32, hidden=64, experts=4, k=2):
        super().__init__()
        self.router = BidRouter(dim, experts, k)
        self.experts = nn.ModuleList(Expert(dim, hidden) for _ in range(experts))
        self.price = nn.Linear(dim, 1)

    def forward(self, x):
        w, ids, balance = self.router(x)
        y = torch.zeros_like(x)
        for e, net in enumerate(self.experts):
            row, slot = (ids == e).nonzero(as_tuple=True)
            if row.numel():
                y.index_add_(0, row, net(x[row]) * w[row, slot, None])
        return F.softplus(self.price(x + y)).squeeze(-1), balance


if __name__ == "__main__":
    p, b = BidMixture()(torch.randn(10, 32))
    print(p.shape, float(b))
