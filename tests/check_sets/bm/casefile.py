"""Second-stage ranking of court decisions.

The claim (a short query) reads every candidate decision token by token.  The same
few hundred decisions come back for nearly every claim of a session, hence a memo
with a size limit in front of the expensive part.
"""
from __future__ import annotations

import collections
import math
import re

import torch

TOKEN = re.compile(r"[a-zà-ÿ]+|§+|\d+", re.I)


def hash_embed(text: str, table: torch.Tensor) -> torch.Tensor:
    ids = [sum(ord(c) * 31 ** i for i, c in enumerate(w.lower())) % len(table) for w in TOKEN.findall(text)]
    return table[torch.tensor(ids or [0])]


class Lru(collections.OrderedDict):
    def __init__(self, limit):
        super().__init__()
        self.limit = limit

    def lookup(self, key, make):
        if key in self:
            self.move_to_end(key)
        else:
            self[key] = make()
            if len(self) > self.limit:
                self.popitem(last=False)
        return self[key]


class DecisionReader:
    """Cross attention claim -> decision.  Weights: a dict with q, k, v, o, each [d, d]."""

    def __init__(self, weights: dict[str, torch.Tensor], heads: int, memo: int = 512):
        self.w = weights
        self.heads = heads
        self.memo = Lru(memo)

    def _heads(self, x, name):
        return (x @ self.w[name]).view(x.shape[0], self.heads, -1).transpose(0, 1)

    def _prepare(self, claim, decision):
        """The part that costs: all projections of the decision and its scores."""
        k, v = self._heads(decision, "k"), self._heads(decision, "v")
        q = self._heads(claim, "q")
        scores = q @ k.transpose(1, 2) / math.sqrt(q.shape[-1])
        return torch.softmax(scores, dim=-1), v

    @torch.no_grad()
    def read(self, claim: torch.Tensor, decision: torch.Tensor, docket: str) -> torch.Tensor:
        """claim [n, d], decision [m, d], docket = unique number of the decision -> [n, d]"""
        key = (docket, claim.shape[0])
        weights, v = self.memo.lookup(key, lambda: self._prepare(claim, decision))
        y = (weights @ v).transpose(0, 1).reshape(claim.shape[0], -1)
        return y @ self.w["o"]

    def forget(self):
        self.memo.clear()


class Ranker:
    def __init__(self, d=32, heads=4, vocab=4096, seed=0):
        g = torch.Generator().manual_seed(seed)
        self.table = torch.randn(vocab, d, generator=g)
        self.reader = DecisionReader({n: torch.randn(d, d, generator=g) * d ** -0.5 for n in "qkvo"}, heads)
        self.head = torch.randn(d, generator=g)

    def rank(self, claim: str, decisions: dict[str, str]) -> list[tuple[str, float]]:
        c = hash_embed(claim, self.table)
        scored = []
        for docket, text in decisions.items():
            d = hash_embed(text, self.table)
            r = self.reader.read(c, d, docket)
            scored.append((docket, float(torch.tanh(c + r).mean(0) @ self.head)))
        return sorted(scored, key=lambda t: -t[1])


if __name__ == "__main__":
    corpus = {
        "VIII ZR 12/19": "Der Mieter schuldet keine Schönheitsreparaturen nach § 535",
        "IX ZB 7/21": "Die Insolvenzmasse umfasst den Anspruch",
    }
    r = Ranker()
    for claim in ("Vermieter verlangt Renovierung", "Insolvenz des Mieters"):
        print(r.rank(claim, corpus))
