# Mixture-of-experts layer with top-k routing (Mixtral / Switch like), small scale.
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


class TopKRouter(nn.Module):
    """Cosine router: every token is compared with one key vector per expert."""

    def __init__(self, dim, num_experts, top_k=2, key_dim=16, temperature=0.07):
        super().__init__()
        self.query = nn.Linear(dim, key_dim, bias=False)
        self.keys = nn.Parameter(torch.randn(num_experts, key_dim))
        self.top_k, self.temperature = top_k, temperature

    def forward(self, x):
        q = F.normalize(self.query(x), dim=-1)
        k = F.normalize(self.keys, dim=-1)
        logits = q @ k.t() / self.temperature
        probs = logits.softmax(dim=-1)
        weight, chosen = probs.topk(self.top_k, dim=-1)
        weight = weight / weight.sum(dim=-1, keepdim=True)
        return weight, chosen, probs


def load_balancing_loss(probs, chosen):
    n = probs.size(-1)
    used = F.one_hot(chosen, n).float().sum(1).mean(0)
    return n * (used * probs.mean(0)).sum() / chosen.size(-1)


class SparseMoE(nn.Module):
    """x [B, T, dim] -> same shape, auxiliary loss"""

    def __init__(self, dim=32, hidden=64, num_experts=4, top_k=2):
        super().__init__()
        self.router = TopKRouter(dim, num_experts, top_k)
        self.experts = nn.ModuleList(Expert(dim, hidden) for _ in range(num_experts))

    def forward(self, x):
        shape = x.shape
        x = x.reshape(-1, shape[-1])
        weight, chosen, probs = self.router(x)
        out = torch.zeros_like(x)
        for e, expert in enumerate(self.experts):
            token, slot = torch.where(chosen == e)
            if token.numel() == 0:
                continue
            out.index_add_(0, token, expert(x[token]) * weight[token, slot, None])
        return out.view(shape), load_balancing_loss(probs, chosen)


if __name__ == "__main__":
    y, aux = SparseMoE()(torch.randn(2, 7, 32))
    print(y.shape, float(aux))
