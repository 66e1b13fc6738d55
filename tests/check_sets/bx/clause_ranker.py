"""Rank contract clauses against a lawyer's memo.

Late interaction with sparse attention: each memo token attends to a clause's
tokens, but only the `keep` best-scoring tokens of that clause take part (ties
with the last one kept are in as well); the softmax runs over those alone.  If
the clause has fewer than `keep` real tokens, all of its real tokens are used.

Shapes: M memo tokens, C clauses, T tokens per clause.
"""
from dataclasses import dataclass
from typing import Optional

import torch
from torch import nn


@dataclass
class RankerConfig:
    vocab: int = 200
    dim: int = 16
    keep: int = 4


class ClauseRanker(nn.Module):
    def __init__(self, cfg: Optional[RankerConfig] = None):
        super().__init__()
        cfg = cfg or RankerConfig()
        self.cfg = cfg
        self.words = nn.Embedding(cfg.vocab, cfg.dim, padding_idx=0)
        self.ask = nn.Linear(cfg.dim, cfg.dim, bias=False)
        self.key = nn.Linear(cfg.dim, cfg.dim, bias=False)
        self.val = nn.Linear(cfg.dim, cfg.dim, bias=False)
        self.score = nn.Bilinear(cfg.dim, cfg.dim, 1)

    def evidence(self, memo: torch.Tensor, clauses: torch.Tensor, real: torch.Tensor) -> torch.Tensor:
        q = self.ask(memo)                                    # M D
        k, v = self.key(clauses), self.val(clauses)           # C T D
        s = torch.einsum("md,ctd->cmt", q, k) * self.cfg.dim ** -0.5
        s = s.masked_fill(~real[:, None, :], -torch.inf)
        floor = s.topk(min(self.cfg.keep, s.shape[-1]), dim=-1).values[..., -1:]
        s = s.masked_fill(s < floor, -torch.inf)
        return torch.einsum("cmt,ctd->cmd", torch.softmax(s, dim=-1), v)

    def forward(self, memo_ids: torch.Tensor, clause_ids: torch.Tensor) -> torch.Tensor:
        """memo_ids [M], clause_ids [C, T] with 0 as filler; every clause has a
        real token.  Returns one relevance per clause, [C]."""
        memo = self.words(memo_ids)
        seen = self.evidence(memo, self.words(clause_ids), clause_ids != 0)
        memo = memo.expand_as(seen).contiguous()
        return self.score(memo, seen).squeeze(-1).mean(dim=-1)

    @torch.no_grad()
    def rank(self, memo_ids, clause_ids):
        return self(memo_ids, clause_ids).argsort(descending=True).tolist()
