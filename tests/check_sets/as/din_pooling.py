"""Deep Interest Network: local activation unit and the pooling of behaviour sequences.

The paper leaves the weights un-normalised to keep the intensity of interest
(Weighting.INTENSITY); many forks use a softmax instead (Weighting.SOFTMAX).
"""
from enum import Enum

import torch
import torch.nn as nn


class Weighting(str, Enum):
    INTENSITY = "intensity"
    SOFTMAX = "softmax"


class Dice(nn.Module):
    def __init__(self, n, eps=1e-8):
        super().__init__()
        self.bn = nn.BatchNorm1d(n, eps=eps, affine=False)
        self.alpha = nn.Parameter(torch.zeros(n))

    def forward(self, x):
        flat = x.reshape(-1, x.shape[-1])
        p = torch.sigmoid(self.bn(flat)).view_as(x)
        return p * x + (1 - p) * self.alpha * x


def act_factory(kind, n):
    table = {"dice": lambda: Dice(n), "prelu": lambda: nn.PReLU(), "sigmoid": lambda: nn.Sigmoid()}
    return table[kind]()


class LocalActivationUnit(nn.Module):
    """MLP over [candidate, item, candidate - item, candidate * item] -> one score per item."""

    def __init__(self, dim, hidden=(80, 40), act="dice"):
        super().__init__()
        widths = [4 * dim, *hidden]
        body = []
        for a, b in zip(widths, widths[1:]):
            body += [nn.Linear(a, b), act_factory(act, b)]
        self.mlp = nn.Sequential(*body, nn.Linear(widths[-1], 1))

    def forward(self, candidate, behaviour):
        c = candidate.unsqueeze(-2).expand_as(behaviour)
        return self.mlp(torch.cat([c, behaviour, c - behaviour, c * behaviour], -1)).squeeze(-1)


class AttentionSequencePooling(nn.Module):
    """
    candidate [B, D], behaviour [B, T, D], n_items [B] (how many of the T are real, the
    rest is padding at the end) -> [B, D]. An empty history gives the zero vector.
    """

    def __init__(self, dim, weighting=Weighting.SOFTMAX, **unit_kwargs):
        super().__init__()
        self.unit = LocalActivationUnit(dim, **unit_kwargs)
        self.weighting = Weighting(weighting)
        self.dim = dim

    def forward(self, candidate, behaviour, n_items, return_score=False):
        score = self.unit(candidate, behaviour)
        real = torch.arange(behaviour.shape[1], device=behaviour.device) < n_items[:, None]
        if self.weighting is Weighting.SOFTMAX:
            score = (score / self.dim**0.5).masked_fill(~real, torch.finfo(score.dtype).min)
            score = torch.softmax(score, dim=1)
        w = score.masked_fill(~real, 0.0)
        if return_score:
            return w
        return torch.bmm(w.unsqueeze(1), behaviour).squeeze(1)


class DIN(nn.Module):
    def __init__(self, n_items, n_cates, dim=16, weighting="softmax"):
        super().__init__()
        self.item = nn.Embedding(n_items, dim, padding_idx=0)
        self.cate = nn.Embedding(n_cates, dim, padding_idx=0)
        self.pool = AttentionSequencePooling(2 * dim, weighting)
        self.top = nn.Sequential(nn.Linear(4 * dim, 80), Dice(80), nn.Linear(80, 1))

    def forward(self, batch):
        e = lambda i, c: torch.cat([self.item(i), self.cate(c)], -1)
        cand = e(batch["item"], batch["cate"])
        interest = self.pool(cand, e(batch["hist_item"], batch["hist_cate"]), batch["hist_len"])
        return torch.sigmoid(self.top(torch.cat([cand, interest], -1))).squeeze(-1)
