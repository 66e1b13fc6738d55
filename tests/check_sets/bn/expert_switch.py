"""Token-choice mixture of experts with a softmax router (top-k, capacity-free)."""
from typing import Dict, Tuple

import torch
import torch.nn as nn
import torch.nn.functional as F


class Expert(nn.Module):
    def __init__(self, d: int, m: int):
        super().__init__()
        self.key = nn.Linear(d, m, bias=False)
        self.value = nn.Linear(m, d, bias=False)

    def forward(self, x):
        return self.value(F.relu(self.key(x)).square())


class Router(nn.Module):
    """query = token, "keys" = expert embeddings; scores are scaled by 1/sqrt(d)."""

    def __init__(self, d: int, n_experts: int, k: int, jitter: float = 0.0):
        super().__init__()
        self.query = nn.Linear(d, d, bias=False)
        self.keys = nn.Parameter(torch.randn(n_experts, d))
        self.k, self.jitter = k, jitter
        self.scale = d ** -0.5

    def forward(self, x: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor, Dict[str, torch.Tensor]]:
        if self.training and self.jitter:
            x = x * torch.empty_like(x).uniform_(1 - self.jitter, 1 + self.jitter)
        logits = (self.query(x) @ self.keys.t()).float() * self.scale
        probs = logits.softmax(dim=-1)
        w, idx = probs.topk(self.k, dim=-1)
        w = w / w.sum(-1, keepdim=True)
        # load balancing: fraction of tokens * mean probability, times n
        hard = F.one_hot(idx[:, 0], probs.shape[-1]).float().mean(0)
        aux = {
            "balance": probs.shape[-1] * (hard * probs.mean(0)).sum(),
            "z": logits.logsumexp(-1).pow(2).mean(),
        }
        return w.to(x.dtype), idx, aux


class SwitchFFN(nn.Module):
    def __init__(self, d: int = 32, m: int = 64, n_experts: int = 6, k: int = 2):
        super().__init__()
        self.router = Router(d, n_experts, k)
        self.experts = nn.ModuleList(Expert(d, m) for _ in range(n_experts))

    def forward(self, x: torch.Tensor):
        shape = x.shape
        flat = x.reshape(-1, shape[-1])
        w, idx, aux = self.router(flat)
        out = torch.zeros_like(flat)
        for e, expert in enumerate(self.experts):
            tok, slot = (idx == e).nonzero(as_tuple=True)
            if tok.numel():
                out = out.index_add(0, tok, w[tok, slot, None] * expert(flat[tok]))
        return out.view(shape), aux


class ConvMoEBlock(nn.Module):
    """token mixing by a depthwise causal convolution, channel mixing by experts"""

    def __init__(self, d: int = 32, width: int = 5):
        super().__init__()
        self.width = width
        self.n1, self.n2 = nn.RMSNorm(d), nn.RMSNorm(d)
        self.conv = nn.Conv1d(d, d, width, groups=d)
        self.ffn = SwitchFFN(d)

    def forward(self, x):
        h = F.pad(self.n1(x).transpose(1, 2), (self.width - 1, 0))
        x = x + self.conv(h).transpose(1, 2)
        y, aux = self.ffn(self.n2(x))
        return x + y, aux


if __name__ == "__main__":
    y, aux = ConvMoEBlock()(torch.randn(2, 10, 32))
    print(y.shape, {k: float(v) for k, v in aux.items()})
