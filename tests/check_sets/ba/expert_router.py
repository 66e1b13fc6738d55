"""Top-k expert routing for the mixture-of-experts server (Mixtral style).

query/key vocabulary comes from the paper draft: the token state is the "query",
each expert has a learned "key"; but nothing is mixed between tokens.
"""
import torch
import torch.nn.functional as F
from torch import nn


class Expert(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.w1 = nn.Linear(dim, hidden, bias=False)
        self.w2 = nn.Linear(hidden, dim, bias=False)
        self.w3 = nn.Linear(dim, hidden, bias=False)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class ExpertRouter(nn.Module):
    """x [B, T, C] -> y [B, T, C], load-balancing loss.

    softmax over all experts, the top_k are kept and renormalised to sum one.
    """

    def __init__(self, dim, hidden, n_experts=8, top_k=2, jitter=0.0):
        super().__init__()
        self.top_k, self.jitter = top_k, jitter
        self.keys = nn.Parameter(torch.randn(n_experts, dim) * dim ** -0.5)
        self.experts = nn.ModuleList(Expert(dim, hidden) for _ in range(n_experts))

    def route(self, query):
        if self.training and self.jitter > 0:
            query = query * torch.empty_like(query).uniform_(1 - self.jitter, 1 + self.jitter)
        logits = query @ self.keys.T
        probs = F.softmax(logits.float(), dim=-1)
        weight, index = probs.topk(self.top_k, dim=-1)
        weight = weight / weight.sum(dim=-1, keepdim=True)
        return weight.to(query.dtype), index, probs

    def forward(self, x):
        B, T, C = x.shape
        flat = x.reshape(-1, C)
        weight, index, probs = self.route(flat)
        y = torch.zeros_like(flat)
        for e, expert in enumerate(self.experts):
            row, place = (index == e).nonzero(as_tuple=True)
            if row.numel():
                y.index_add_(0, row, expert(flat[row]) * weight[row, place, None])
        return y.view(B, T, C), self.balance(probs, index)

    def balance(self, probs, index):
        n = probs.shape[-1]
        share = F.one_hot(index[:, 0], n).float().mean(dim=0)
        return n * (share * probs.mean(dim=0)).sum()


if __name__ == "__main__":
    r = ExpertRouter(16, 32)
    y, aux = r(torch.randn(2, 5, 16))
    print(y.shape, float(aux))
