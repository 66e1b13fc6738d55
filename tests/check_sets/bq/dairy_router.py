"""Milk yield model with experts per herd type (sparse mixture of experts).

A cow-day goes to its two best experts; the gate's probabilities of the two are
renormalised and mix the experts' outputs. Load balancing loss after Switch/GShard.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F

BREEDS = ("Holstein", "Jersey", "Ayrshire", "Brown Swiss", "Montbéliarde", "Fleckvieh")


def wood_curve(day, a=20.0, b=0.2, c=0.004):
    """lactation curve a t^b exp(-c t), kg per day"""
    day = day.clamp_min(1.0)
    return a * day ** b * torch.exp(-c * day)


def energy_corrected(milk, fat, protein):
    return 0.327 * milk + 12.95 * milk * fat / 100 + 7.65 * milk * protein / 100


class Expert(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.gate, self.up = nn.Linear(dim, hidden, bias=False), nn.Linear(dim, hidden, bias=False)
        self.down = nn.Linear(hidden, dim, bias=False)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))


class HerdRouter(nn.Module):
    """x [tokens, dim] -> (y [tokens, dim], auxiliary loss).

    Every token is treated on its own; tokens never see each other.
    """

    def __init__(self, dim, experts=6, k=2, hidden=48, jitter=0.01):
        super().__init__()
        self.k, self.jitter = k, jitter
        self.query = nn.Linear(dim, dim, bias=False)
        self.keys = nn.Parameter(torch.randn(experts, dim) * dim ** -0.5)
        self.experts = nn.ModuleList(Expert(dim, hidden) for _ in range(experts))

    def forward(self, x):
        if self.training and self.jitter:
            routed = x * (1 + self.jitter * (2 * torch.rand_like(x) - 1))
        else:
            routed = x
        logits = self.query(routed) @ self.keys.t()
        probs = logits.softmax(-1)
        weight, chosen = probs.topk(self.k, dim=-1)
        weight = weight / weight.sum(-1, keepdim=True)

        y = torch.zeros_like(x)
        for i, expert in enumerate(self.experts):
            token, rank = (chosen == i).nonzero(as_tuple=True)
            if token.numel():
                y.index_add_(0, token, expert(x[token]) * weight[token, rank, None])

        share = F.one_hot(chosen, len(self.experts)).float().sum(1).mean(0) / self.k
        aux = len(self.experts) * (share * probs.mean(0)).sum()
        return y, aux


class YieldModel(nn.Module):
    def __init__(self, features=14, dim=32):
        super().__init__()
        self.breed = nn.Embedding(len(BREEDS), dim)
        self.inp = nn.Linear(features, dim)
        self.norm = nn.LayerNorm(dim)
        self.moe = HerdRouter(dim)
        self.out = nn.Linear(dim, 1)

    def forward(self, x, breed, day):
        h = self.inp(x) + self.breed(breed)
        y, aux = self.moe(self.norm(h))
        return wood_curve(day) + self.out(h + y).squeeze(-1), aux


if __name__ == "__main__":
    torch.manual_seed(0)
    m = YieldModel()
    y, aux = m(torch.randn(9, 14), torch.randint(0, 6, (9,)), torch.randint(5, 300, (9,)).float())
    print(y.detach().round(), aux.item())
