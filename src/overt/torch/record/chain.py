"""The calls of one attention that read one text, joined into one matrix.

Shapes do not tell which keys a cache holds: static caches hold room to spare, sliding ones have let keys go, beams have
changed places, and tokens that were guessed wrongly have been taken back.  What is seen again tells, for its bits are
the same: a few numbers of each key and value are remembered and recognised.  A call is joined where it fits in one
place and no other.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

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
from overt.torch.record.marks import ONE, alike, certain, chosen, complete, relation
from overt.torch.record.visible import Visible

Part = tuple[Link, int, np.ndarray | None]
"""A link, how many of its first rows still count, and which of its batch rows became the last ones."""


@dataclass(frozen=True, eq=False)
class Place:
    """Where a call stands in the text of a chain.

    past: keys known before it.  offset: which key its first one is.  row: at which query the text goes on.
    rows: (B, B'), which of its batch rows may continue which.
    began, since: the passes in which the chain began, and was last continued.
    width, lead: what these of the chain were.  own: whether its last query sees its own key, and no later one.
    """

    past: int
    offset: int
    row: int
    rows: Tensor
    began: int
    since: int
    width: int
    lead: int
    own: bool = False

    def both(self, other: Place) -> Tensor | None:
        """Which rows may continue which, as two attentions of one pass say; None where they contradict each other."""
        if (self.row, self.began, self.since) != (other.row, other.began, other.since):
            return None
        if self.rows.shape != other.rows.shape:
            return None
        rows = self.rows if self.rows is other.rows else self.rows & other.rows
        return rows if complete(rows) else None


class Chain:
    """Calls that continue one another.  ``width`` is how many keys they have seen, all together."""

    def __init__(self, link: Link, seen: Tensor | None = None) -> None:
        """seen: marks of the keys, without which nothing can follow."""
        self.links = [link]
        self.width = link.S
        # Keys that came before the first query.
        self.lead = max(link.S - link.T, 0)
        self.cross = False
        # Tokens (B, N) of all queries, where they are known.
        self.ids = link.ids
        # Of all keys, and of what lay in room to spare after them.
        self._marks = seen
        # Which batch rows are the same in all keys, where somebody has asked.
        self._same: Tensor | None = None
        # Whether the last query of every call that followed saw its own key, and no later one.
        self._own = True

    def follow(self, call: Call, seen: Tensor, told: Place | None) -> Place | None:
        """How a call continues this chain; None where it does not, or not with certainty.

        told: how other attentions of the same pass of the model continue.
        """
        known = self._marks
        if known is None or not seen.shape[-1] or not self.width:
            return None
        if (seen.shape[-1], seen.dtype, seen.device) != (known.shape[-1], known.dtype, known.device):
            return None
        across = self._across(call, seen, known)
        if across is None:
            return None if self.cross else self._within(call, seen, known, told)
        if told is None or (not self.cross and self._within(call, seen, known, told) is not None):
            return None
        self.cross = True
        # One memory for several beams does not tell whose is whose.
        place = Place(self.width, 0, told.row, across, *self._steps, self.width, self.lead)
        rows = place.both(told)
        return None if rows is None else replace(place, rows=rows)

    def _across(self, call: Call, seen: Tensor, known: Tensor) -> Tensor | None:
        """Which batch rows look at the same memory as which before; None where it is another, or none."""
        if seen.shape[1] != known.shape[1] or not (self.cross or len(self.links) == 1):
            return None
        if call.weights is None and not self.cross:
            # Queries of one text see no further than themselves, those of another all that there is.
            before, now = self.links[0].ends, ends(call)
            if before.max() != now.max() or any((x[..., :1] != x).any() for x in (before, now)):
                return None
        rows = self._related(seen, known)
        return rows if complete(rows) else None

    def _within(self, call: Call, seen: Tensor, known: Tensor, told: Place | None) -> Place | None:
        """The one place where the keys of a call that are not its queries' own fit those that are known."""
        T, S = call.sizes[2:]
        reach, first = int(ends(call).max(initial=0)), self.links[0]
        # Queries see no key that is not written yet, and all their own are there.
        fewest, most = reach - T, S - T
        found: list[tuple[int, int, Tensor]] = []
        for offset in self._offsets(seen, known, max(fewest, 1)) if most > 0 else ():
            old = known[:, offset : self._end(offset)]
            if fewest == most:
                rows = self._related(seen[:, :most], old[:, :most])
                count = most if complete(rows) else None
            else:
                lengths = alike(seen[:, : old.shape[1]], old[:, :S])
                count = self._count(call, seen, old, lengths, fewest, offset)
                if count is None and int(lengths.amax(1).min()) >= max(fewest, 1):
                    return None
                rows = lengths >= (count or 0)
            if count is not None:
                found.append((offset, count, rows))
        if len(found) != 1:
            return None
        (offset, count, rows), width, lead = found[0], self.width, self.lead
        past, own = offset + count, call.weights is None and reach == count + T
        if self._open and past < width:
            # Room to spare, which no query saw: how much is known where queries see their own keys.
            width = max(past, int(first.ends.max()), first.T)
            lead, nearest = width - first.T, int(first.ends[..., :1].max())
            if known.shape[1] != S or reach != count + T or nearest not in (lead + 1, width):
                return None
        if past < width and not self._leaves(past, lead):
            return None
        place = Place(past, offset, past - lead, rows, *self._steps, width, lead, own)
        if told is not None and (both := place.both(told)) is not None:
            place = replace(place, rows=both)
        return place if certain(place.rows, known[:, :offset]) else None

    def _count(self, call: Call, seen: Tensor, old: Tensor, lengths: Tensor, fewest: int, offset: int) -> int | None:
        """How many old keys a call holds that may have room to spare; None where that is not certain.

        lengths: (B, B'), up to where its keys are the old ones.
        """
        T, S = call.sizes[2:]
        owns = call.weights is None and self._own and not self._open
        same = int(lengths.amax(1).min())
        if same == S - T == old.shape[1] == self.width - offset:
            # It grew by its queries, none of which sees the last key, as of padding.
            return None if owns else S - T
        nearest = old[:, :S][chosen(lengths == lengths.amax(1, keepdim=True))]
        changed = (seen[:, : old.shape[1]] != nearest).any(-1).any(0)
        written = changed[fewest : fewest + T]
        if not 1 <= fewest <= same or bool(changed[fewest + T :].any()):
            return None
        # A token that was taken back and comes again leaves no trace; but who sees no further than itself tells.
        return fewest if owns or (len(written) == T and bool(written[0] & written[-1])) else None

    def _end(self, offset: int) -> int:
        """Up to where it is known what lay in a cache: after the last keys only if it has not slid since."""
        assert self._marks is not None
        return self._marks.shape[1] if offset == self.links[-1].offset else self.width

    @property
    def _open(self) -> bool:
        """Whether nobody knows yet how much of what the only call was given is room to spare."""
        return len(self.links) == 1 and int(self.links[0].ends.max(initial=0)) < self.links[0].S

    @property
    def _steps(self) -> tuple[int, int]:
        return self.links[0].step, self.links[-1].step

    def _offsets(self, seen: Tensor, known: Tensor, fewest: int) -> list[int]:
        """Where the first key of a call may be, if it holds so many old ones."""
        most = self.width - fewest
        if most <= 0:
            return [0] if most == 0 else []
        return (known[:, : most + 1] == seen[:1, :1]).all(-1).any(0).nonzero()[:, 0].tolist()

    def _related(self, new: Tensor, known: Tensor) -> Tensor:
        """``relation``, and which known rows are the same only once, as long as nothing changes."""
        if new.shape != known.shape or known.shape[1] != self.width or not torch.equal(new, known):
            return relation(new, known)
        if self._same is None:
            self._same = relation(known, known)
        return self._same

    def _leaves(self, past: int, lead: int) -> bool:
        """Whether queries are left where only so many keys are kept, and saw none that is gone.

        Where none is left another text begins with the same keys, as learned ones are.
        """
        row, widest = past - lead, 0
        for link, count, _ in self.parts():
            kept = link.ends[:, :, : max(min(count, row - link.row), 0)]
            widest = max(widest, int(kept.max(initial=0)) + link.offset)
        return row > 0 and widest <= past

    def append(self, link: Link, seen: Tensor, place: Place) -> None:
        """Add a call at its place."""
        order, one = chosen(place.rows), place.rows is ONE
        link.past, link.offset, link.row = place.past, place.offset, place.row
        link.order = None if one or torch.equal(order, torch.arange(place.rows.shape[1])) else order.numpy()
        if self._open:
            self.links[0].S = place.width
        self.links.append(link)
        if self.ids is not None and link.ids is not None:
            self.ids = np.concatenate([_taken(self.ids, link.order)[:, : link.row], link.ids], 1)
        else:
            self.ids = None
        if self.cross:
            if self._same is not None and link.order is not None:
                self._same = self._same[order][:, order]
            self._marks = seen
            return
        assert self._marks is not None
        here, end = place.past - place.offset, place.past - place.offset + link.T
        same, new = self._same, seen[:, here:end]
        whole = place.past == self.width
        self.width, self.lead, self._own = place.past + link.T, place.lead, self._own and place.own
        # Room to spare at the end is nobody's key.
        link.S = min(link.S, self.width - link.offset)
        if not one:
            self._same = same[order][:, order] & relation(new, new) if whole and same is not None else None
        before = self._marks[:, : place.past]
        self._marks = torch.cat([before if link.order is None else before[order.to(seen.device)], seen[:, here:]], 1)

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
