"""Second-stage ranking of court decisions: the question's tokens attend to a decision's paragraphs.

Decisions are long and come back in many result lists, so what is computed for them is kept.
"""
from collections import OrderedDict

import torch
import torch.nn as nn
import torch.nn.functional as F


class LRU(OrderedDict):
    def __init__(self, room=1024):
        super().__init__()
        self.room = room

    def put(self, key, value):
        self[key] = value
        self.move_to_end(key)
        if len(self) > self.room:
            self.popitem(last=False)
        return value


class DecisionAttention(nn.Module):
    """question [Lq, dim] x paragraphs [Lp, dim] -> [Lq, dim], scaled dot product, several heads."""

    def __init__(self, dim, heads):
        super().__init__()
        self.heads, self.hd = heads, dim // heads
        self.q = nn.Linear(dim, dim, bias=False)
        self.k = nn.Linear(dim, dim, bias=False)
        self.v = nn.Linear(dim, dim, bias=False)
        self.o = nn.Linear(dim, dim, bias=False)
        self.memo = LRU()

    def split(self, t):
        return t.view(t.shape[0], self.heads, self.hd).transpose(0, 1)

    def train(self, mode=True):
        self.memo.clear()
        return super().train(mode)

    def forward(self, question, paragraphs, doc_id=None):
        """doc_id: name of the decision in the index (its paragraphs never change); used in eval mode only."""
        key = None if self.training or doc_id is None else (doc_id, question.shape[0])
        v = self.split(self.v(paragraphs))
        if key is not None and key in self.memo:
            self.memo.move_to_end(key)
            w = self.memo[key]
        else:
            q, k = self.split(self.q(question)), self.split(self.k(paragraphs))
            w = torch.softmax(q @ k.transpose(1, 2) / self.hd ** 0.5, dim=-1)
            if key is not None:
                self.memo.put(key, w.detach())
        y = (w @ v).transpose(0, 1).reshape(question.shape[0], -1)
        return self.o(y)


class Ranker(nn.Module):
    def __init__(self, dim=64, heads=4):
        super().__init__()
        self.att = DecisionAttention(dim, heads)
        self.norm = nn.LayerNorm(dim)
        self.score = nn.Linear(dim, 1)

    def forward(self, question, paragraphs, doc_id=None):
        z = self.norm(question + self.att(question, paragraphs, doc_id))
        return self.score(z.mean(0)).squeeze(-1)

    @torch.no_grad()
    def rank(self, question, index, candidates, top=10):
        """index: dict doc_id -> [Lp, dim]"""
        s = torch.stack([self(question, index[c], c) for c in candidates])
        order = s.argsort(descending=True)[:top].tolist()
        return [(candidates[i], float(s[i])) for i in order]

    def pair_loss(self, question, good, bad):
        return F.softplus(self(question, bad) - self(question, good))
