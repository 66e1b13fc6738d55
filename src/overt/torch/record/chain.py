"""The calls of one attention that read one text, joined into one matrix.

Shapes do not tell which keys a cache holds: static caches hold room to spare, sliding ones have let keys go, beams have
changed places, and tokens that were guessed wrongly have been taken back.  The values tell: those of a key that is seen
again are the same bits, so a few numbers of each are remembered and recognised.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from overt import given
from overt.errors import RecordingError
from overt.grid import dtype_name, widened
from overt.problem import Problem
from overt.scores import scaled_dot
from overt.torch.record.arrays import array
from overt.torch.record.call import Call
from overt.torch.record.keeping import Link, ends
from overt.torch.record.visible import Visible

Part = tuple[Link, int, np.ndarray | None]
"""A link, how many of its first rows still count, and which of its batch rows became the last ones."""
# Numbers of a value that tell it from others, and the type of bits as many as theirs.
_MARKS, _BITS = 4, {2: torch.int16, 4: torch.int32, 8: torch.int64}


def marks(call: Call) -> Tensor:
    """A few numbers of each value, (B, S, ≤ 4)."""
    return call.v[:, 0, :, :_MARKS].clone(memory_format=torch.contiguous_format)


def _bits(x: Tensor) -> Tensor:
    """Numbers as the bits that they are."""
    return x.view(_BITS[x.dtype.itemsize])


class Chain:
    """Calls that continue one another.  ``width`` is how many keys they have seen, all together."""

    def __init__(self, link: Link, seen: Tensor | None = None) -> None:
        """seen: marks of the values, without which nothing can follow."""
        self.links = [link]
        self.width = link.S
        # Keys that came before the first query.
        self.lead = max(link.S - link.T, 0)
        self.cross = False
        # Tokens (B, N) of all queries, where they are known.
        self.ids = link.ids
        self._marks = seen

    def follow(self, call: Call, seen: Tensor, row: int | None) -> tuple[int, int, np.ndarray | None] | None:
        """How a call continues this chain: keys known before it, the place of its first key, where its rows were.

        row: at which query the model continues, where another attention of the same pass told.
        """
        _, _, T, S = call.sizes
        N = self.width
        if self._marks is None or not seen.shape[-1] or not N:
            return None
        known, seen = _bits(self._marks), _bits(seen)
        if S == N and (order := _match(seen, known)) is not None:
            self.cross = True
            return None if row is None else (N, 0, _places(order))
        past, length = min(N, S - T), S - T
        slid = N - length
        moved = _match(seen[:, :length], known[:, slid:]) if slid > 0 < length else None
        order = _match(seen[:, :past], known[:, :past]) if self._leaves(past) else None
        if order is not None and past < length and ends(call).max(initial=0) > past + T:
            order = None
        if moved is not None and order is not None:
            # Of one token again and again nothing tells whether a window slid or tokens were taken back.
            return None
        if moved is not None:
            return N, slid, _places(moved)
        if order is not None:
            return past, 0, _places(order)
        if S == N and len(self.links) == 1:
            # Room to spare, which no query saw: what differs first is new.
            count = min(len(seen), len(known))
            same = (seen[:count] == known[:count]).all(-1).all(0)
            past = int(same.byte().argmin())
            if (
                self.links[0].ends.max(initial=0) <= past <= length
                and ends(call).max(initial=0) <= past + T
                and (order := _match(seen[:, :past], known[:, :past])) is not None
            ):
                self._cut(past)
                return past, 0, _places(order)
        # Keys that have left a sliding cache, or were taken back, leave the others where they were.
        if length > 0:
            alike = (known == seen[:1, :1]).all(-1).any(0)[1 : max(slid, 1)].nonzero()[:, 0] + 1
            for offset in alike.flip(0).tolist():
                past = offset + length
                if self._leaves(past) and (order := _match(seen[:, :length], known[:, offset:past])) is not None:
                    return past, offset, _places(order)
        return None

    def _leaves(self, past: int) -> bool:
        """Whether queries are left where only so many keys are kept, and saw none that is gone.

        Where none is left another text begins with the same keys, as learned ones are.
        """
        row, widest = self.row_of(past), 0
        for link, count, _ in self.parts() if past < self.width else ():
            kept = link.ends[:, :, : max(min(count, row - link.row), 0)]
            widest = max(widest, int(kept.max(initial=0)) + link.offset)
        return row > 0 and widest <= past

    def row_of(self, past: int) -> int:
        """Which query comes after so many keys."""
        return past - self.lead

    def append(self, link: Link, seen: Tensor) -> None:
        """Add a call that ``follow`` has placed."""
        self.links.append(link)
        if self.ids is not None and link.ids is not None:
            self.ids = np.concatenate([_taken(self.ids, link.order)[:, : link.row], link.ids], 1)
        else:
            self.ids = None
        if self.cross:
            return
        T = link.T
        assert self._marks is not None
        known = self._marks[:, : link.past]
        if link.order is not None:
            known = known[torch.from_numpy(link.order).to(known.device)]
        self.width = link.past + T
        # Room to spare at the end is nobody's key.
        link.S = min(link.S, self.width - link.offset)
        here = link.past - link.offset
        self._marks = torch.cat([known, seen[:, here : here + T]], 1)

    def _cut(self, width: int) -> None:
        self.width, self.links[0].S = width, width
        self.lead = max(width - self.links[0].T, 0)
        if self._marks is not None:
            self._marks = self._marks[:, :width]

    def base(self, link: Link) -> int | None:
        """At which of its own keys the first query of a link stands; None where its keys are no places of queries."""
        if self.cross:
            return None
        if link is not self.links[0]:
            return link.past - link.offset
        if link.S == link.T:
            return 0
        last = (link.visible.meant or link.visible).last
        if last.shape[2] != link.T or link.T == 1 or (np.diff(last.max((0, 1))) != 1).any():
            return None
        return int(last[:, :, 0].max()) - 1

    @property
    def rows(self) -> int:
        """Queries, all calls together."""
        return self.links[-1].row + self.links[-1].T

    def parts(self, index: int | None = None) -> list[Part]:
        """One link by itself, or all that joined make the matrix, in order."""
        if index is not None:
            return [(self.links[index], self.links[index].T, None)]
        found: list[Part] = []
        limit, order = self.rows, None
        for link in reversed(self.links):
            count = min(link.T, limit - link.row)
            if count > 0:
                found.append((link, count, order))
            limit = min(limit, link.row)
            order = _composed(link.order, order)
        return found[::-1]

    def problem(self, index: int | None = None) -> Problem:
        """The problem of one call, or of all of them joined, from the queries and keys that were kept."""
        last = self.links[-1 if index is None else index]
        parts = self.parts(index)
        first, S = (0, self.width) if index is None else (last.offset, last.S)
        if last.weights is not None:
            return self._given(parts, first, S)
        q = np.concatenate([_taken(link.q.array, order)[:, :, :count] for link, count, order in parts], 2)  # type: ignore[union-attr]
        k = self._keys(len(self.links) - 1 if index is None else index % len(self.links))[:, :, first : first + S]
        seen, bias = self.seen(index)
        if dtype_name(q) == "bfloat16":
            # The same numbers in a type that NumPy knows.
            q, k = (widened(x, np.dtype(np.float32)) for x in (q, k))
        return Problem.of(
            q,
            k,
            np.empty((*k.shape[:3], 0), k.dtype),
            score=scaled_dot(last.scale),
            mask=seen.mask,
            bias=bias,
            softcap=last.softcap,
            sinks=last.sinks,
        )

    def seen(self, index: int | None = None) -> tuple[Visible, np.ndarray | None]:
        """Which keys each query of one call, or of all of them joined, may see, and what is added to its scores."""
        parts = self.parts(index)
        first, S = (0, self.width) if index is None else (self.links[index].offset, self.links[index].S)
        rest, bias = _dense(parts, "rest", first, S), _dense(parts, "bias", first, S)
        return Visible(*_edges(parts, first, S), rest), bias

    @property
    def deviation(self) -> float | None:
        """The largest of all calls; None if none was checked."""
        return max((link.deviation for link in self.links if link.deviation is not None), default=None)

    def _given(self, parts: list[Part], first: int, S: int) -> Problem:
        last = parts[-1][0]
        whole = np.zeros((last.batch, last.heads, sum(count for _, count, _ in parts), S), last.wide)
        t = 0
        for link, count, order in parts:
            at = link.offset - first
            n = min(link.S, S - at)
            assert link.weights is not None
            weights = _taken(link.weights.array, order)[:, :, :count, :n]
            whole[:, :, t : t + count, at : at + n] = widened(weights, whole.dtype)
            t += count
        return given.problem(whole)

    def _keys(self, index: int) -> np.ndarray:
        """Keys (B, G, N, D) that were known after a call, in the batch order of that call."""
        parts: list[np.ndarray] = []
        order, limit = None, self.links[index].offset + self.links[index].S
        for link in reversed(self.links[: index + 1]):
            assert link.k is not None
            new = _taken(link.k.array, order)
            start = link.past
            end = start + (link.T if link is not self.links[0] and not self.cross else new.shape[2])
            end = min(end, limit)
            if end > start:
                parts.append(new[:, :, : end - start])
            limit = min(limit, start)
            order = _composed(link.order, order)
        return parts[0] if len(parts) == 1 else np.concatenate(parts[::-1], 2)

    def lse(self, index: int | None = None) -> np.ndarray:
        """(B, H, T) of one call, or of all of them joined."""
        parts = self.parts(index)
        return np.concatenate([_taken(array(link.lse), order)[:, :, :count] for link, count, order in parts], 2)

    def counts(self, index: int | None = None) -> np.ndarray:
        """How many keys each query sees, (B or 1, H or 1, T), of one call or joined."""
        parts = self.parts(index)
        rows = [_taken(link.counts, order if len(link.counts) > 1 else None)[:, :, :n] for link, n, order in parts]
        leading = np.broadcast_shapes(*(x.shape[:2] for x in rows))
        return np.concatenate([np.broadcast_to(x, (*leading, x.shape[2])) for x in rows], 2)

    def per_row(self, name: str, index: int | None = None) -> np.ndarray | None:
        """A statistic of queries, (B, H, T), of one call or joined; None where it is not known of each."""
        parts = self.parts(index)
        if any(getattr(link.statistics, name) is None for link, _, _ in parts):
            return None
        return np.concatenate(
            [_taken(array(getattr(link.statistics, name)), order)[:, :, :count] for link, count, order in parts], 2
        )

    @property
    def adds_up(self) -> bool:
        """Whether what keys received in all calls is known: the weights are, or no query was taken back."""
        return self.links[0].statistics is None or sum(count for _, count, _ in self.parts()) == sum(
            link.T for link in self.links
        )

    def received(self, index: int | None = None) -> np.ndarray:
        """(B, H, S) of one call or joined, from what was kept of each."""
        if index is not None:
            link = self.links[index]
            assert link.statistics is not None
            return array(link.statistics.received)[:, :, : link.S]
        if not self.adds_up:
            raise RecordingError(
                "some queries were taken back, as guessed tokens are, and what they gave is in the sums: "
                'ask rec.calls(name) for each call, or record with keep="qk"'
            )
        last = self.links[-1]
        total = np.zeros((last.batch, last.heads, self.width), last.wide)
        for link, _, order in self.parts():
            assert link.statistics is not None
            received = _taken(array(link.statistics.received), order)
            total[:, :, link.offset : link.offset + link.S] += received[:, :, : link.S]
        return total

    def top(self, index: int | None = None) -> tuple[np.ndarray, np.ndarray] | None:
        """Heaviest keys and their weights, (B, H, T, N), of one call or joined."""
        parts = self.parts(index)
        tops = [link.statistics.top if link.statistics is not None else None for link, _, _ in parts]
        if any(found is None for found in tops):
            return None
        most = max(found[0].shape[-1] for found in tops if found is not None)
        width = self.width if index is None else parts[0][0].S
        most = min(most, width)
        indices, weights = [], []
        for (link, count, order), found in zip(parts, tops, strict=True):
            assert found is not None
            i, w = (_taken(array(x), order)[:, :, :count, :most] for x in found)
            i = i + (link.offset if index is None else 0)
            short = ((0, 0), (0, 0), (0, 0), (0, most - i.shape[-1]))
            indices.append(np.pad(i, short))
            weights.append(np.pad(w, short))
        return np.concatenate(indices, 2), np.concatenate(weights, 2)


def _match(new: Tensor, known: Tensor) -> Tensor | None:
    """For each batch row of the new values the row of the known ones that is the same; None unless all have one."""
    if new.shape[1] != known.shape[1] or new.device != known.device or new.dtype != known.dtype:
        return None
    if new.shape == known.shape and torch.equal(new, known):
        return torch.arange(len(new))
    same = torch.stack([(row == known).all(-1).all(-1) for row in new])
    if not bool(same.any(-1).all()):
        return None
    order = same.byte().argmax(-1)
    if len(new) == len(known):
        own = torch.arange(len(new), device=order.device)
        order = torch.where(same.diagonal(), own, order)
    return order.cpu()


def _places(order: Tensor) -> np.ndarray | None:
    """None where everything stayed."""
    found = order.numpy()
    return None if (found == np.arange(len(found))).all() else found


def _composed(inner: np.ndarray | None, outer: np.ndarray | None) -> np.ndarray | None:
    if inner is None or outer is None:
        return inner if outer is None else outer
    return inner[outer]


def _taken(x: np.ndarray, order: np.ndarray | None) -> np.ndarray:
    return x if order is None or len(x) == 1 < len(order) else x[order]


def _edges(parts: list[Part], first: int, S: int) -> tuple[np.ndarray, np.ndarray]:
    """Spans of all rows, in columns of the joined matrix."""
    found = []
    for name in ("first", "last"):
        rows = []
        for link, count, order in parts:
            edge = _taken(getattr(link.visible, name), order if len(getattr(link.visible, name)) > 1 else None)
            edge = edge if edge.shape[2] == 1 else edge[:, :, :count]
            rows.append(np.clip(np.broadcast_to(edge, (*edge.shape[:2], count)) + link.offset - first, 0, S))
        leading = np.broadcast_shapes(*(x.shape[:2] for x in rows))
        found.append(np.concatenate([np.broadcast_to(x, (*leading, x.shape[2])) for x in rows], 2))
    return found[0], found[1]


def _dense(parts: list[Part], name: str, first: int, S: int) -> np.ndarray | None:
    """Booleans inside the spans, or biases, of all rows, in columns of the joined matrix."""
    arrays = [link.visible.rest if name == "rest" else link.bias for link, _, _ in parts]
    given = [x for x in arrays if x is not None]
    if not given:
        return None
    if len(parts) == 1 and parts[0][2] is None and given[0].shape[3] == S and parts[0][1] == parts[0][0].T:
        return given[0]
    leading = np.broadcast_shapes(*(x.shape[:2] for x in given))
    if leading[0] == 1 and any(order is not None for _, _, order in parts):
        leading = (1, leading[1])
    T = sum(count for _, count, _ in parts)
    whole = np.full((*leading, T, S), name == "rest", given[0].dtype)
    t = 0
    for (link, count, order), x in zip(parts, arrays, strict=True):
        if x is not None:
            x = _taken(x, order if len(x) > 1 else None)
            x = x if x.shape[2] == 1 else x[:, :, :count]
            at = link.offset - first
            n = min(x.shape[3], S - at)
            whole[:, :, t : t + count, at : at + n] = x[..., :n]
        t += count
    return whole
