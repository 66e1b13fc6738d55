import math
from typing import Optional, Tuple

import torch
import torch.nn as nn


def length_to_absent(lengths: torch.Tensor, n: int) -> torch.Tensor:
    """[B] lengths -> [B, n], True behind the end of the basket."""
    return torch.arange(n, device=lengths.device)[None, :] >= lengths[:, None]


class BasketReader(nn.Module):
    """Scores the shelf against what already lies in the shopper's basket.

    shelf   [B, M, D]  candidate products
    basket  [B, N, D]  products in the basket, padded to N
    absent  [B, N]     True where the basket is padded
    delisted[B, N]     True for articles that left the assortment (padding is article 0,
                       which is delisted as well)

    A position is ignored when it is absent OR delisted.  finfo.min and not -inf is used,
    so that a shopper with an empty basket gets the plain mean of the slots and no NaN.
    Returns ([B, M, D], weights [B, H, M, N]).
    """

    def __init__(self, dim: int, heads: int = 2):
        super().__init__()
        assert dim % heads == 0
        self.heads = heads
        self.to_q = nn.Linear(dim, dim, bias=False)
        self.to_kv = nn.Linear(dim, 2 * dim, bias=False)
        self.out = nn.Linear(dim, dim)

    def _heads(self, t: torch.Tensor) -> torch.Tensor:
        b, n, d = t.shape
        return t.view(b, n, self.heads, d // self.heads).transpose(1, 2)

    def forward(self, shelf: torch.Tensor, basket: torch.Tensor,
                absent: Optional[torch.Tensor] = None,
                delisted: Optional[torch.Tensor] = None) -> Tuple[torch.Tensor, torch.Tensor]:
        q = self._heads(self.to_q(shelf))
        k, v = (self._heads(t) for t in self.to_kv(basket).chunk(2, dim=-1))
        sim = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
        low = torch.finfo(sim.dtype).min
        bias = torch.zeros(basket.shape[:2], dtype=sim.dtype, device=sim.device)
        if absent is not None:
            bias = bias + absent.to(sim.dtype) * low
        if delisted is not None:
            bias = bias + delisted.to(sim.dtype) * low
        w = (sim + bias[:, None, None, :]).softmax(dim=-1)
        y = (w @ v).transpose(1, 2).flatten(2)
        return self.out(y), w


class NextArticle(nn.Module):
    def __init__(self, articles: int, dim: int = 16):
        super().__init__()
        self.emb = nn.Embedding(articles, dim)
        self.read = BasketReader(dim)

    def forward(self, shelf_ids, basket_ids, lengths, delisted_ids):
        gone = torch.isin(basket_ids, delisted_ids)
        s, b = self.emb(shelf_ids), self.emb(basket_ids)
        y, _ = self.read(s, b, length_to_absent(lengths, basket_ids.shape[1]), gone)
        return (y * s).sum(-1)
