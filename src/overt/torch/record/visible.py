"""Which keys a query may see, as a model said it: booleans, numbers that are added, a causal flag, a BlockMask."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from overt.masks import Mask, Spans, keep

# Cells of a mask that are worked out at a time.
_CELLS = 1 << 22


@dataclass(frozen=True, eq=False)
class Visible:
    """Keys first ≤ s < last of each query, (B or 1, H or 1, T or 1), and booleans (…, T, S) inside.

    alike: where numbers that are finite hide every key of a query, the same with what it sees: the keys of its largest
    number, all alike.
    meant: the same without such queries, where this has them.
    """

    first: np.ndarray
    last: np.ndarray
    rest: np.ndarray | None = None
    alike: Visible | None = None
    meant: Visible | None = None

    @staticmethod
    @lru_cache(maxsize=16)
    def everything(S: int) -> Visible:
        """All keys."""
        return Visible(np.zeros((1, 1, 1), np.int64), np.full((1, 1, 1), S))

    @staticmethod
    @lru_cache(maxsize=16)
    def causal(T: int, S: int, offset: int, left: int | None = None) -> Visible:
        """Keys up to position t + offset, and no more than ``left`` before it."""
        position = np.arange(T) + offset
        first = np.zeros(T, np.int64) if left is None else np.clip(position - left, 0, S)
        return Visible(first[None, None], np.clip(position + 1, 0, S)[None, None])

    # Layers share what they may see, and so what follows from it.

    @cached_property
    def mask(self) -> Mask | None:
        """The same as one of overt's masks."""
        spans = Spans(self.first, self.last)
        return spans if self.rest is None else spans & keep(self.rest)

    @cached_property
    def _spans(self) -> dict[tuple[int, int, int], tuple[np.ndarray, np.ndarray]]:
        return {}

    @cached_property
    def _counted(self) -> dict[int, np.ndarray]:
        return {}

    def spans(self, B: int, H: int, T: int) -> tuple[np.ndarray, np.ndarray]:
        """First and last of every query as the kernels take them, int32 (B, H, T)."""
        if (B, H, T) not in self._spans:
            first, last = (np.broadcast_to(x.astype(np.int32), (B, H, T)) for x in (self.first, self.last))
            self._spans[B, H, T] = first, last
        return self._spans[B, H, T]

    @cached_property
    def counts(self) -> np.ndarray:
        """How many keys each query sees, (B or 1, H or 1, T or 1)."""
        if self.rest is None:
            return np.maximum(self.last - self.first, 0)
        return self._dense().sum(-1)

    def counted(self, T: int) -> np.ndarray:
        """The same for T queries, (B or 1, H or 1, T)."""
        if T not in self._counted:
            self._counted[T] = np.broadcast_to(self.counts, (*self.counts.shape[:2], T))
        return self._counted[T]

    @cached_property
    def start(self) -> np.ndarray:
        """The first key that anybody sees, (B or 1,); 0 where nobody sees any.  Who sees all alike does not tell."""
        if self.meant is not None:
            return self.meant.start
        if self.rest is None:
            sees = self.first < self.last
            start = np.where(sees, self.first, np.iinfo(np.int64).max).min(axis=(1, 2))
            return np.where(sees.any(axis=(1, 2)), start, 0)
        anybody = self._dense().any(axis=(1, 2))
        return anybody.argmax(-1)

    @cached_property
    def blind(self) -> np.ndarray | None:
        """Queries that see nothing, (B or 1, H or 1, T or 1); None where all see something."""
        found = self.counts == 0
        return found if found.any() else None

    @property
    def edges(self) -> Visible:
        """The spans alone."""
        return Visible(self.first, self.last, meant=None if self.meant is None else self.meant.edges)

    def _dense(self) -> np.ndarray:
        assert self.rest is not None
        s = np.arange(self.rest.shape[-1])
        return self.rest & (self.first[..., None] <= s) & (s < self.last[..., None])

    def rows(self, at: slice, S: int, device: torch.device) -> Tensor:
        """Booleans (B or 1, H or 1, N or 1, S) of some queries."""
        first, last = (x if x.shape[2] == 1 else x[:, :, at] for x in (self.first, self.last))
        s = np.arange(S)
        seen = (first[..., None] <= s) & (s < last[..., None])
        if self.rest is not None:
            seen = seen & (self.rest if self.rest.shape[2] == 1 else self.rest[:, :, at])
        return torch.from_numpy(seen).to(device)

    def at(self, keys: np.ndarray) -> np.ndarray:
        """Whether each query sees one key: keys (B, T) → (B, H or 1, T)."""
        chosen = keys[:, None]
        seen = (self.first <= chosen) & (chosen < self.last)
        if self.rest is not None:
            b, h, t, _ = (np.arange(n) if n > 1 else np.zeros(1, int) for n in self.rest.shape)
            seen = seen & self.rest[b[:, None, None], h[:, None], t, chosen]
        return seen

    def both(self, other: Visible) -> Visible:
        """What both let a query see."""
        rests = [x.rest for x in (self, other) if x.rest is not None]
        rest = rests[0] & rests[1] if len(rests) == 2 else rests[0] if rests else None
        return Visible(np.maximum(self.first, other.first), np.minimum(self.last, other.last), rest)


_Split = tuple[Visible, Tensor | None]
# Layers share their masks: what was worked out for one is remembered as long as the tensor lives unchanged.
_remembered = WeakTensorKeyDictionary()


def split(mask: Tensor) -> _Split:
    """A mask (B or 1, H or 1, T or 1, S) of booleans, True = may attend, or of numbers, as what it hides and adds."""
    version = None if mask.is_inference() else mask._version
    known = _remembered.get(mask)  # type: ignore[no-untyped-call]
    if known is not None and version is not None and known[0] == version:
        return known[1]
    found = _split(mask)
    _remembered[mask] = version, found
    return found


def _split(mask: Tensor) -> _Split:
    mask = narrowed(mask.detach())
    if mask.dtype == torch.bool:
        return of_booleans(mask), None
    hidden = mask <= torch.finfo(mask.dtype).min / 2
    added = mask.masked_fill(hidden, 0)
    seen = of_booleans(~hidden)
    if seen.blind is not None:
        largest = mask.amax(-1, keepdim=True)
        alike = of_booleans(torch.where(hidden.all(-1, keepdim=True), (mask == largest) & ~mask.isinf(), ~hidden))
        if (alike.counts != seen.counts).any():
            seen = replace(seen, alike=replace(alike, meant=seen))
    return seen, added if bool(added.any()) else None


def narrowed(x: Tensor) -> Tensor:
    """Axes before the last two that only repeat themselves, once."""
    for axis in range(x.ndim - 2):
        if x.shape[axis] > 1 and x.stride(axis) == 0:
            x = x.narrow(axis, 0, 1)
    return x


def of_booleans(mask: Tensor) -> Visible:
    """Spans, and the booleans too only where these have holes."""
    T, S = mask.shape[-2:]
    step = max(1, _CELLS // max(1, mask.shape[0] * mask.shape[1] * S))
    edges = [_edges(mask[:, :, i : i + step]) for i in range(0, T, step)]
    first, last, whole = (torch.cat(x, 2) for x in zip(*edges, strict=True)) if edges else _edges(mask)
    rest = None if bool(whole.all()) else mask.cpu().numpy().copy()
    return Visible(first.cpu().numpy(), last.cpu().numpy(), rest)


def _edges(mask: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    S = mask.shape[-1]
    if not S:
        none = torch.zeros(mask.shape[:-1], dtype=torch.int64)
        return none, none, none == 0
    bits = mask.contiguous().view(torch.uint8)
    count = bits.sum(-1)
    first = bits.argmax(-1)
    last = torch.where(count > 0, S - bits.flip(-1).argmax(-1), first)
    return first, last, last - first == count


def of_predicate(predicate: Callable[..., Any], B: int, H: int, T: int, S: int, device: torch.device) -> Visible:
    """What a function of tensors (b, h, t, s) keeps, in blocks of queries."""
    step = max(1, _CELLS // max(1, B * H * S))
    parts = [
        of_booleans(evaluated(predicate, B, H, range(i, min(i + step, T)), S, device, torch.bool))
        for i in range(0, T, step)
    ]
    first, last = (np.concatenate([getattr(p, name) for p in parts], 2) for name in ("first", "last"))
    if all(p.rest is None for p in parts):
        return Visible(first, last)
    s = np.arange(S)
    dense = [(p.first[..., None] <= s) & (s < p.last[..., None]) if p.rest is None else p.rest for p in parts]
    return Visible(first, last, np.concatenate(dense, 2))


def evaluated(
    f: Callable[..., Any], B: int, H: int, t: range, S: int, device: torch.device, dtype: torch.dtype, *first: Tensor
) -> Tensor:
    """f(…, b, h, t, s) of scalars at every cell of some queries, (B, H, len(t), S)."""
    axes = [torch.arange(n, device=device) for n in (B, H)]
    axes += [torch.arange(t.start, t.stop, device=device), torch.arange(S, device=device)]
    each = f
    given = (0,) * len(first)
    for place in (3, 2, 1, 0):
        each = torch.vmap(each, in_dims=(*given, *(0 if i == place else None for i in range(4))))
    return each(*first, *axes).to(dtype).expand(B, H, len(t), S)
