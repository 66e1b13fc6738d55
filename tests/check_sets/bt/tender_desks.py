"""Routes incoming procurement questions to specialist desks of the buying office.

Two desks out of E answer each question; their answers are blended by the renormalised
routing probabilities. A balance term keeps one desk from getting everything.
"""
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class Routing:
    weights: torch.Tensor     # [T, top]
    desks: torch.Tensor       # [T, top] indices
    balance: torch.Tensor     # scalar


class Desk(nn.Module):
    def __init__(self, width: int, hidden: int):
        super().__init__()
        self.up = nn.Linear(width, 2 * hidden)
        self.down = nn.Linear(hidden, width)

    def forward(self, x):
        value, gate = self.up(x).chunk(2, dim=-1)
        return self.down(value * F.silu(gate))


class Reception(nn.Module):
    """Scores every desk for every question and keeps the best `top`."""

    def __init__(self, width: int, desks: int, top: int = 2, jitter: float = 0.01):
        super().__init__()
        self.score = nn.Linear(width, desks, bias=False)
        self.top, self.jitter = top, jitter

    def forward(self, x) -> Routing:
        if self.training:
            x = x * torch.empty_like(x).uniform_(1 - self.jitter, 1 + self.jitter)
        probs = torch.softmax(self.score(x).float(), dim=-1)
        w, idx = probs.topk(self.top, dim=-1)
        w = w / w.sum(-1, keepdim=True)
        share = F.one_hot(idx[:, 0], probs.shape[-1]).float().mean(0)
        balance = probs.shape[-1] * (share * probs.mean(0)).sum()
        return Routing(w.to(x.dtype), idx, balance)


class TenderDesks(nn.Module):
    def __init__(self, width: int = 32, hidden: int = 48, desks: int = 6, top: int = 2):
        super().__init__()
        self.reception = Reception(width, desks, top)
        self.desks = nn.ModuleList(Desk(width, hidden) for _ in range(desks))
        self.norm = nn.LayerNorm(width)

    def forward(self, x, is_question=None):
        """x [B, L, width]; is_question [B, L] masks tokens that need no desk."""
        flat = self.norm(x).flatten(0, 1)
        r = self.reception(flat)
        out = torch.zeros_like(flat)
        for e, desk in enumerate(self.desks):
            token, slot = (r.desks == e).nonzero(as_tuple=True)
            if token.numel():
                out = out.index_add(0, token, r.weights[token, slot, None] * desk(flat[token]))
        out = out.view_as(x)
        if is_question is not None:
            out = out * is_question.unsqueeze(-1)
        return x + out, r.balance


class QuestionModel(nn.Module):
    def __init__(self, vocab: int = 400, width: int = 32, topics: int = 12):
        super().__init__()
        self.words = nn.Embedding(vocab, width, padding_idx=0)
        self.mix = nn.GRU(width, width, batch_first=True)
        self.desks = TenderDesks(width)
        self.topic = nn.Linear(width, topics)

    def forward(self, ids):
        h, _ = self.mix(self.words(ids))
        h, balance = self.desks(h, ids.ne(0))
        return self.topic(h.mean(1)), balance


if __name__ == "__main__":
    logits, aux = QuestionModel()(torch.randint(0, 400, (3, 9)))
    print(logits.shape, float(aux))
