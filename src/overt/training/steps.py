"""What a step of training is made of: batches, threads, the rate, dropout, and the head that is guided."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import torch

from overt import layers
from overt.layers import Attention
from overt.models.vocabulary import END, START, padded
from overt.torch.attention import attention
from overt.training.tasks import Guides, Pairs

Batch = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor | None]
"""Source (B, S), its lengths (B,), target (B, T + 1) from start to end, and where to look (B, T, S), if known."""


class Workers:
    """Threads that each compute alone, on torch's operators and overt's kernels."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._pool = ThreadPoolExecutor(count, initializer=torch.set_num_threads, initargs=(1,)) if count > 1 else None

    def map(self, task: Callable[[int], Any], numbers: Iterable[int]) -> list[Any]:
        """What the task gives for each number, in order."""
        return list((map if self._pool is None else self._pool.map)(task, numbers))

    def close(self) -> None:
        """Send the threads home."""
        if self._pool is not None:
            self._pool.shutdown()


def batch(pairs: Pairs, guides: Guides | None = None) -> Batch:
    """Pairs of token numbers as arrays; the source ends with ``END``, the target also begins with ``START``."""
    source, lengths = padded([[*numbers, END] for numbers, _ in pairs])
    target, _ = padded([[START, *numbers, END] for _, numbers in pairs])
    guide = None
    if guides is not None:
        wide = np.zeros((len(pairs), target.shape[1] - 1, source.shape[1]), np.float32)
        for row, one in zip(wide, guides, strict=True):
            T, S = one.shape
            row[:T, :S] = one
            row[: T + 1, S] = 1 - row[: T + 1].sum(axis=-1)
        guide = torch.from_numpy(wide)
    return torch.from_numpy(source), torch.from_numpy(lengths), torch.from_numpy(target), guide


def every(count: int, first: int, data: Batch) -> Batch:
    """Each of so many pairs of a batch, from the first on."""
    source, lengths, target, guide = data
    part = slice(first, None, count)
    return source[part], lengths[part], target[part], None if guide is None else guide[part]


def first_head(seen: list[torch.Tensor], lengths: torch.Tensor) -> Attention:
    """``overt.attention`` that also appends the logarithms (B, T, S) of its first head's weights to a list."""

    def look(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, **options: Any) -> torch.Tensor:
        scores = q[:, 0] @ k[:, 0].mT / math.sqrt(q.shape[-1])
        # A finite number, because what is hidden is later multiplied by zero.
        hidden = torch.arange(k.shape[-2]) >= lengths[:, None, None]
        seen.append(scores.masked_fill(hidden, -1e4).log_softmax(dim=-1))
        return attention(q, k, v, **options)

    return look


def schedule(step: int, total: int, warmup: float) -> float:
    """Share of the peak rate: up in a line, then down to zero along a cosine."""
    first = max(1.0, warmup * total)
    if step < first:
        return (step + 1) / first
    return 0.5 * (1 + math.cos(math.pi * min(1.0, (step - first) / max(1.0, total - first))))


def dropping(rate: float, generator: torch.Generator) -> Callable[[torch.Tensor], torch.Tensor]:
    """Dropout from random bytes: torch's own draws a number per element, which is a quarter of a step here."""
    threshold = round(rate * 256)
    if not threshold:
        return layers.keep

    def drop(x: torch.Tensor) -> torch.Tensor:
        words = torch.randint(-(2**63), 2**63 - 1, (-(-x.numel() // 8),), generator=generator)
        bytes_ = words.view(torch.uint8)[: x.numel()].view(x.shape)
        return x * ((bytes_ >= threshold) * (256 / (256 - threshold)))

    return drop
