"""Top-2 mixture-of-experts feed-forward (Switch/GShard flavour), small and slow."""
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class MoEConfig:
    dim: int = 16
    hidden: int = 32
    experts: int = 4
    top_k: int = 2
    aux_weight: float = 0.01


class SoftmaxRouter(nn.Module):
    """Token-to-expert weights: softmax of token . expert key over the experts, the
    top k kept and renormalised."""

    def __init__(self, cfg: MoEConfig):
        super().__init__()
        self.keys = nn.Parameter(torch.randn(cfg.experts, cfg.dim) * cfg.dim ** -0.5)
        self.k = cfg.top_k

    def forward(self, tokens):
        scores = tokens @ self.keys.T
        probs = F.softmax(scores, dim=-1)
        top, idx = probs.topk(self.k, dim=-1)
        return top / top.sum(-1, keepdim=True), idx, probs


class MoELayer(nn.Module):
    def __init__(self, cfg: MoEConfig = MoEConfig()):
        super().__init__()
        self.cfg = cfg
        self.router = SoftmaxRouter(cfg)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(cfg.dim, cfg.hidden), nn.GELU(), nn.Linear(cfg.hidden, cfg.dim))
            for _ in range(cfg.experts))

    def load_balance(self, probs, idx):
        share = F.one_hot(idx[..., 0], self.cfg.experts).float().mean(0)
        return self.cfg.aux_weight * self.cfg.experts * (share * probs.mean(0)).sum()

    def forward(self, x):
        flat = x.reshape(-1, x.shape[-1])
        w, idx, probs = self.router(flat)
        out = torch.zeros_like(flat)
        for e, expert in enumerate(self.experts):
            tok, slot = (idx == e).nonzero(as_tuple=True)
            if len(tok):
                out.index_add_(0, tok, w[tok, slot, None] * expert(flat[tok]))
        return out.view_as(x), self.load_balance(probs, idx)


if __name__ == "__main__":
    y, aux = MoELayer()(torch.randn(2, 5, 16))
    print(y.shape, float(aux))
