"""Answering over a statute book: sparse reading of a memory of paragraphs.

Only the `k` best paragraphs per question token take part; softmax over these k, so the
output is the weighted mean of the k value vectors, each with the weight of its own key.
"""
from __future__ import annotations

import torch
from torch import nn


class ParagraphMemory:
    """Keys and values of all paragraphs, [N, d] each."""

    def __init__(self, keys: torch.Tensor, values: torch.Tensor, titles: list[str] | None = None):
        if len(keys) != len(values):
            raise ValueError("keys and values differ in number")
        self.keys, self.values = keys, values
        self.titles = titles or [f"§ {i + 1}" for i in range(len(keys))]

    def cite(self, idx: torch.Tensor) -> list[str]:
        return [self.titles[i] for i in idx.flatten().tolist()]


def topk_read(q: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, k: int,
              repealed: torch.Tensor | None = None) -> torch.Tensor:
    """q [T, d], keys [N, d], values [N, e] -> [T, e].

    repealed [N] bool: True = no longer in force, is not read.  At least k are in force.
    """
    score = (q @ keys.T) / q.shape[-1] ** 0.5
    if repealed is not None:
        score = score.masked_fill(repealed, float("-inf"))
    best, idx = score.topk(min(k, keys.shape[0]), dim=-1)
    weight = best.softmax(dim=-1)
    idx, _ = idx.sort(dim=-1)  # gather in storage order, kinder to the page cache
    picked = values[idx]  # [T, k, e]
    return torch.einsum("tk,tke->te", weight, picked)


class StatuteReader(nn.Module):
    def __init__(self, dim: int, k: int = 4):
        super().__init__()
        self.k = k
        self.ask = nn.Linear(dim, dim)
        self.mix = nn.Linear(2 * dim, dim)

    def forward(self, tokens: torch.Tensor, mem: ParagraphMemory) -> torch.Tensor:
        found = topk_read(self.ask(tokens), mem.keys, mem.values, self.k)
        return torch.tanh(self.mix(torch.cat([tokens, found], -1)))


if __name__ == "__main__":
    g = torch.Generator().manual_seed(0)
    mem = ParagraphMemory(torch.randn(50, 16, generator=g), torch.randn(50, 16, generator=g))
    print(StatuteReader(16)(torch.randn(5, 16), mem).shape)
