"""Nearest-case memory for insurance-claim triage.

The memory stores (key, value) rows of closed claims with the day on which they were
closed.  A new claim attends over its ``k`` most similar claims that are not older than
``horizon`` days; the weights are a softmax over these k scaled dot products and the
answer is the weighted mean of the values of the same k claims.  If fewer than k claims
are recent enough, all of them are used.
"""
from __future__ import annotations

import torch
from torch import Tensor


class CaseMemory:
    def __init__(self, key_size: int, value_size: int, k: int = 4, horizon: int = 365):
        self.k, self.horizon = k, horizon
        self.keys = torch.empty(0, key_size)
        self.values = torch.empty(0, value_size)
        self.days = torch.empty(0, dtype=torch.long)

    def __len__(self) -> int:
        return len(self.days)

    def store(self, keys: Tensor, values: Tensor, days: Tensor) -> None:
        if not (len(keys) == len(values) == len(days)):
            raise ValueError("keys, values and days must have the same length")
        self.keys = torch.cat([self.keys, keys])
        self.values = torch.cat([self.values, values])
        self.days = torch.cat([self.days, days])

    def lookup(self, query: Tensor, today: int) -> Tensor:
        """query [B, key_size] -> [B, value_size]"""
        recent = (today - self.days) <= self.horizon
        if not recent.any():
            return query.new_zeros(len(query), self.values.shape[1])
        keys = self.keys[recent]
        scores = query @ keys.T / keys.shape[1] ** 0.5
        best, where = scores.topk(min(self.k, len(keys)), dim=1)
        weights = best.softmax(dim=1)
        return torch.einsum("bk,bkv->bv", weights, self.values[where])


class ClaimTriage(torch.nn.Module):
    """Mixes the memory's answer with the claim itself."""

    def __init__(self, features: int = 9, key_size: int = 16, value_size: int = 6, k: int = 4):
        super().__init__()
        self.encode = torch.nn.Linear(features, key_size)
        self.memory = CaseMemory(key_size, value_size, k)
        self.decide = torch.nn.Linear(features + value_size, 3)

    @torch.no_grad()
    def learn(self, claims: Tensor, outcomes: Tensor, days: Tensor) -> None:
        self.memory.store(self.encode(claims), outcomes, days)

    def forward(self, claims: Tensor, today: int) -> Tensor:
        answer = self.memory.lookup(self.encode(claims), today)
        return self.decide(torch.cat([claims, answer], dim=-1))


if __name__ == "__main__":
    torch.manual_seed(0)
    model = ClaimTriage()
    model.learn(torch.randn(30, 9), torch.rand(30, 6), torch.randint(0, 900, (30,)))
    print(model(torch.randn(2, 9), today=900))
