"""What a view is given: attention with names for its queries and keys."""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod

import numpy as np

from overt.attended import Attended
from overt.biases import Dense, as_bias
from overt.errors import ArgumentError, DtypeError, ShapeError
from overt.grid import Cells, host
from overt.problem import Problem
from overt.views.pooling import bins, spanned

# What no reader and no terminal should be made to swallow whole.
_LONGEST = 10_000
# Cells of a mask with gaps that are asked one by one.
_GAPS = 1 << 28


@dataclass(frozen=True, eq=False)
class Labelled:
    """One attention of a model, with names.

    seen: its result, of any leading axes.
    tokens: names of the S keys.
    queries: names of the T queries, by default the last T tokens, for the last query stands at the last key.
    name: what it attends to: "encoder", "decoder", "cross".
    layer: which layer it belongs to, from 0.
    prompt: how many of the first queries were given; those after it were generated, one step each.
    source: the text or the model that it is of, where several are beside each other.
    """

    seen: Attended
    tokens: Sequence[str] | None = None
    queries: Sequence[str] | None = None
    name: str = "attention"
    layer: int = 0
    prompt: int | None = None
    source: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.seen, Attended):
            raise DtypeError(f"give what overt.attend returns, not {type(self.seen).__name__}")
        shape = self.seen.problem.shape
        if not prod((shape.B, shape.H, shape.T, shape.S)):
            raise ArgumentError(f"there is nothing to show: the weights have shape {shape.full}")
        for name, given, count in (("tokens", self.tokens, shape.S), ("queries", self.queries, shape.T)):
            if given is None:
                continue
            listed = isinstance(given, Collection) and not isinstance(given, str)
            if not listed or not all(isinstance(token, str) for token in given):
                raise DtypeError(f"{name} must be a list of strings, one per {'key' if name == 'tokens' else 'query'}")
            if len(given) != count:
                raise ShapeError(
                    f"{len(given)} {name} for {count} {'keys' if name == 'tokens' else 'queries'}: give one string each"
                )
        if self.prompt is not None and not 0 <= self.prompt <= shape.T:
            raise ArgumentError(f"prompt is {self.prompt}, but there are {shape.T} queries: give 0…{shape.T}")
        lse = host("lse", self.seen.lse)
        if np.isnan(lse).any() or np.isposinf(lse).any():
            raise ArgumentError(self._culprit())

    @cached_property
    def problem(self) -> Problem:
        """What was asked, on the host."""
        given = self.seen.problem
        return replace(
            given,
            q=host("q", given.q),
            k=host("k", given.k),
            v=host("v", given.v),
            sinks=None if given.sinks is None else host("sinks", given.sinks),
            bias=as_bias(given.bias, on_host=True),
        )

    @property
    def title(self) -> str:
        """Which attention it is, in words; nothing where there is nothing to tell it from."""
        where = f"layer {self.layer} · {readable(self.name)}" if self.layer or self.name != "attention" else ""
        return " · ".join(filter(None, (self.source and readable(self.source), where)))

    @cached_property
    def keys(self) -> tuple[str, ...] | None:
        """Readable names of the keys, if any."""
        return None if self.tokens is None else tuple(readable(token) for token in self.tokens)

    @property
    def named_queries(self) -> Sequence[str] | None:
        """Names of the queries, if any: their own, or those of the last T keys."""
        T, S = self.problem.shape.T, self.problem.shape.S
        if self.queries is not None or self.tokens is None or T > S:
            return self.queries
        return self.tokens[S - T :]

    @cached_property
    def rows(self) -> tuple[str, ...] | None:
        """Readable names of the queries, if any."""
        names = self.named_queries
        return None if names is None else tuple(readable(token) for token in names)

    def visible(self, row: int, head: int, query: int | None = None) -> np.ndarray:
        """Which keys may be seen: (T, S) of one head, or (1, S) of one query."""
        shape, mask = self.problem.shape, self.problem.mask
        t = np.arange(shape.T) if query is None else np.array([query])
        cells = Cells(shape, np.array([[row]]), np.array([[head]]), t[:, None], np.arange(shape.S))
        return np.broadcast_to(True if mask is None else mask.visible(cells), (len(t), shape.S))

    def spans(self) -> tuple[np.ndarray, np.ndarray]:
        """First and past-the-last visible key of each query, (B or 1, H or 1, T or 1)."""
        shape, mask = self.problem.shape, self.problem.mask
        if mask is None:
            return np.zeros((1, 1, 1), np.int64), np.full((1, 1, 1), shape.S)
        plan = mask.plan(shape.T, shape.S, shape.batch, shape.H)
        return np.asarray(plan.first), np.asarray(plan.last)

    def cells(self) -> np.ndarray:
        """(T,) how many cells the spans of each query hold, in all rows of the batch and heads."""
        shape = self.problem.shape
        first, last = (np.broadcast_to(edge, (shape.B, shape.H, shape.T)) for edge in self.spans())
        return np.maximum(last - first, 0).sum(axis=(0, 1), dtype=np.int64)

    def visible_bins(self, row: int, head: int, rows: int, columns: int) -> np.ndarray:
        """(rows, columns) of a pooled picture of one head: whether it may see any cell of the bin.

        Of more than 2²⁸ cells, spans alone are asked, and gaps in them pass for visible.
        """
        shape, mask = self.problem.shape, self.problem.mask
        down, across = bins(shape.T, rows), bins(shape.S, columns)
        rest = None if mask is None else mask.plan(shape.T, shape.S, shape.batch, shape.H).rest
        if rest is None or shape.T * shape.S > _GAPS:
            first, last = (np.broadcast_to(x, (shape.B, shape.H, shape.T))[row, head] for x in self.spans())
            return spanned(first, last, down, across)
        seen = np.zeros((rows, columns), bool)
        for r, (top, bottom) in enumerate(down):
            keys = np.any([self.visible(row, head, t)[0] for t in range(top, bottom)], axis=0)
            before = np.concatenate([[0], np.cumsum(keys)])
            seen[r] = before[across[:, 1]] > before[across[:, 0]]
        return seen

    def key(self, s: int) -> str:
        """Name of a key, its position where it has none."""
        return str(s) if self.keys is None else self.keys[s]

    def query(self, t: int) -> str:
        """Name of a query, its position where it has none."""
        return str(t) if self.rows is None else self.rows[t]

    def _culprit(self) -> str:
        problem = self.problem
        arrays = {"q": problem.q, "k": problem.k, "sinks": problem.sinks}
        for term in () if problem.bias is None else problem.bias.terms:
            if isinstance(term, Dense):
                arrays["bias"] = term.parameter
        for name, array in arrays.items():
            if array is not None and not np.isfinite(array).all():
                place = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
                return (
                    f"{name} holds {array[place]} at {place}, so there are no weights to show: see where it came from"
                )
        return "the scores overflow, so there are no weights to show: scale q and k down"


def readable(token: str) -> str:
    """A token in which everything that would not print, or would move what is printed, is spelled out."""
    text = token[:_LONGEST] + "…" * (len(token) > _LONGEST)
    spelled = "".join(_spelled(c) for c in text)
    return spelled if spelled.strip() else "␣" * len(spelled) or "∅"


def _spelled(c: str) -> str:
    if c in "\n\r\t":
        return {"\n": "⏎", "\r": "␍", "\t": "⇥"}[c]
    # Zero-width joiners hold emoji together; every other control or format character is spelled out.
    if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp") and c != "\u200d":
        return f"\\u{ord(c):04x}" if ord(c) > 0xFF else f"\\x{ord(c):02x}"
    return c
