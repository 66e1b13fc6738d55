"""One problem on its way around a group of processes: which keys go where, and what is made of them there.

The sequence is cut into two chunks a process, of which process r of P has number r and number 2P − 1 − r.  In step n,
process r works on keys of process r − n; those that the mask hides from all its queries are not sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from overt import parts
from overt.errors import ShapeError
from overt.parts import Place
from overt.problem import Problem, within
from overt.torch.arrays import tensor
from overt.torch.call import Call
from overt.torch.group import Messages, exchanged, spoken

# Keys on their way out, and what comes back of them.
_OUT, _BACK = 0, 1


class Held(NamedTuple):
    """Some keys of a chunk, counted in the whole, and what there is of them: arrays (B, G, S, …)."""

    keys: range
    arrays: list[np.ndarray]


class Meeting(NamedTuple):
    """Some of this process's queries and some keys of chunk j that see each other, and where both lie.

    rows: in the share of this process.  keys: in what it holds of the chunk.
    """

    j: int
    place: Place
    rows: slice
    keys: slice
    problem: Problem


class Tour:
    """One problem on its way around a group.

    asked: the whole, without arrays.  own: what this process holds of it, as arrays.  lse: of its queries, float64,
    once it has been forward.
    """

    def __init__(self, call: Call, own: Problem, group: dist.ProcessGroup | None) -> None:
        self.call, self.own, self.group = call, own, group
        self.rank, self.size = dist.get_rank(group), dist.get_world_size(group)
        lengths = torch.tensor([own.shape.T, own.shape.S])
        every = [torch.empty_like(lengths) for _ in range(self.size)]
        spoken(lambda: dist.all_gather(every, lengths, group=group))
        T, S = (int(n) for n in torch.stack(every).sum(dim=0))
        for rank, held in enumerate(every):
            for name, n, length in zip(("q", "k"), held.tolist(), (T, S), strict=True):
                due = sum(map(len, chunks(length, rank, self.size)))
                if n != due:
                    raise ShapeError(
                        f"process {rank} has {n} of {length} positions of {name} (axis -2), and its share are {due}: "
                        "divide them with overt.torch.ring.share"
                    )
        q, k, v = own.given
        hollow = (
            np.broadcast_to(np.empty((), own.q.dtype), (*shape[:-2], n, shape[-1]))
            for shape, n in ((q, T), (k, S), (v, S))
        )
        threads = torch.get_num_threads() if call.num_threads is None else call.num_threads
        self.asked = parts.asked(*hollow, num_threads=threads, **call.options(call.mask))
        mine = owned(self.rank, self.size)
        # Of each own chunk of queries and every chunk of keys; and of every chunk of queries and the own ones of keys.
        self.sees = meetings(self.asked, self.size, mine, range(2 * self.size))
        self.sees |= meetings(self.asked, self.size, range(2 * self.size), mine)
        self.lse = np.empty(0)

    def due(self, owner: int, reader: int) -> dict[int, range]:
        """By the numbers of their chunks, those of one process's keys that another one needs."""
        found = {}
        for j in owned(owner, self.size):
            seen = [self.sees[i, j].s for i in owned(reader, self.size) if (i, j) in self.sees]
            if seen:
                found[j] = range(min(s.start for s in seen), max(s.stop for s in seen))
        return found

    def mine(self, arrays: Sequence[np.ndarray], due: dict[int, range]) -> dict[int, Held]:
        """Some of this process's own keys."""
        S = self.asked.shape.S
        rows = {j: _shared(keys, S, j, self.rank, self.size) for j, keys in due.items()}
        return {j: Held(keys, [x[:, :, rows[j]] for x in arrays]) for j, keys in due.items()}

    def travel(self, arrays: Sequence[np.ndarray]) -> Iterator[tuple[int, dict[int, Held]]]:
        """Owner and what is needed of these arrays (B, G, S, …) of every process, the next on its way meanwhile."""
        coming = self._sent_on(1, arrays)
        yield self.rank, self.mine(arrays, self.due(self.rank, self.rank))
        for step in range(1, self.size):
            arrived, coming = coming, self._sent_on(step + 1, arrays)
            owner = (self.rank - step) % self.size
            yield owner, _unpacked(arrived.wait(), self.due(owner, self.rank), arrays)
        coming.wait()

    def _sent_on(self, step: int, arrays: Sequence[np.ndarray]) -> Messages:
        if step >= self.size:
            return Messages.none()
        reader, owner = (self.rank + step) % self.size, (self.rank - step) % self.size
        given = self.mine(arrays, self.due(self.rank, reader))
        return self._exchanged(given, reader, _bytes(self.due(owner, self.rank), arrays), owner, _OUT)

    def returned(self, owner: int, sums: dict[int, Held], like: Sequence[np.ndarray]) -> Messages:
        """Give an owner what its keys came to, while another process returns the same to this one."""
        reader = (2 * self.rank - owner) % self.size
        return self._exchanged(sums, owner, _bytes(self.due(self.rank, reader), like), reader, _BACK)

    def _exchanged(self, given: dict[int, Held], to: int, count: int, of: int, tag: int) -> Messages:
        return exchanged([x for held in given.values() for x in held.arrays], to, count, of, tag, self.group)

    def add(self, arrived: Messages, reader: int, total: Sequence[np.ndarray]) -> None:
        """Add what a reader returned to the sums (B, G, S, …) of this process."""
        self._add(_unpacked(arrived.wait(), self.due(self.rank, reader), total), total)

    def _add(self, sums: dict[int, Held], total: Sequence[np.ndarray]) -> None:
        mine = self.mine(total, {j: held.keys for j, held in sums.items()})
        for j, held in sums.items():
            for own, part in zip(mine[j].arrays, held.arrays, strict=True):
                own += part

    def _meetings(self, held: dict[int, Held]) -> Iterator[Meeting]:
        """Which of this process's queries meet which of these keys (and values, if there are any)."""
        for i in owned(self.rank, self.size):
            for j, (s, arrays) in held.items():
                place = self.sees.get((i, j))
                if place is None:
                    continue
                rows, keys = _shared(place.t, self.asked.shape.T, i, self.rank, self.size), within(place.s, s)
                k, v = (arrays[0], arrays[1] if len(arrays) > 1 else arrays[0][..., :0])
                problem = parts.block(self.asked, self.own.q[:, :, rows], k[:, :, keys], v[:, :, keys], place)
                yield Meeting(j, place, rows, keys, problem)

    def forward(self) -> tuple[np.ndarray, np.ndarray]:
        """Output, in the dtype of accumulation, and lse, float64, of this process's queries."""
        own = self.own
        total = parts.Sum(self.asked, self.asked.b, self.asked.h, own.q.shape[2], own.v.shape[-1])
        for _, held in self.travel([own.k, own.v]):
            for meeting in self._meetings(held):
                total.add(meeting.rows, parts.forward(meeting.problem))
        self.lse = total.lse
        return total.output.astype(self.asked.accumulate, copy=False), self.lse

    def backward(
        self, output: np.ndarray, lse: np.ndarray, dy: np.ndarray, dlse: np.ndarray | None, *, constant: bool
    ) -> tuple[list[np.ndarray], dict[str, Any]]:
        """Gradients (B, H, T, …) of this process's q, k and v, and by name its part of those of the parameters."""
        own, accumulate = self.own, self.asked.accumulate
        dq = np.zeros(own.q.shape, accumulate)
        total = [np.zeros(x.shape, accumulate) for x in (own.k, own.v)]
        others: dict[str, Any] = {}

        def gradients(meeting: Meeting, sums: list[np.ndarray]) -> None:
            rows = meeting.rows
            some = None if dlse is None else dlse[:, :, rows]
            found, named = parts.gradient(
                meeting.problem, output[:, :, rows], lse[:, :, rows], dy[:, :, rows], some, constant=constant
            )
            dq[:, :, rows] += found[0]
            for both, part in zip(sums, found[1:], strict=True):
                both[:, :, meeting.keys] += part
            for name, x in named.items():
                others[name] = others[name] + x if name in others else x

        self._to_owners([own.k, own.v], total, gradients)
        if self.asked.sinks is not None:
            others["sinks"] = parts.gradient_of_sinks(self.asked.sinks, output, lse, dy, dlse)
        return [dq, *total], others

    def statistics(self) -> tuple[Tensor, Tensor]:
        """Received of this process's keys, and entropy of its queries."""
        own, accumulate = self.own, self.asked.accumulate
        received = np.zeros(own.k.shape[:1] + own.q.shape[1:2] + own.k.shape[2:3], accumulate)
        entropy = np.zeros(own.q.shape[:3], accumulate)

        def statistics(meeting: Meeting, sums: list[np.ndarray]) -> None:
            per_key, per_query = parts.statistics(meeting.problem, self.lse[:, :, meeting.rows])
            sums[0][:, :, meeting.keys] += per_key
            entropy[:, :, meeting.rows] += per_query

        self._to_owners([own.k], [received], statistics)
        return tensor(own.outward(received)), tensor(own.outward(entropy))

    def _to_owners(
        self,
        arrays: Sequence[np.ndarray],
        total: Sequence[np.ndarray],
        summed: Callable[[Meeting, list[np.ndarray]], None],
    ) -> None:
        """Keys travel, and what is ``summed`` of them where they are is added to the totals of those whose they are."""
        on_way: list[tuple[Messages, int]] = []
        for owner, found in self.travel(arrays):
            sums = {
                j: Held(held.keys, [np.zeros((*x.shape[:2], len(held.keys), *x.shape[3:]), x.dtype) for x in total])
                for j, held in found.items()
            }
            for meeting in self._meetings(found):
                summed(meeting, sums[meeting.j].arrays)
            if owner == self.rank:
                self._add(sums, total)
                continue
            on_way.append((self.returned(owner, sums, total), (2 * self.rank - owner) % self.size))
            # One is on its way while the next is computed.
            if len(on_way) > 1:
                self.add(*on_way.pop(0), total)
        for arrived, reader in on_way:
            self.add(arrived, reader, total)

    def top(self, k: int) -> tuple[Tensor, Tensor]:
        """Of this process's queries."""
        own = self.own
        found = np.zeros((*own.q.shape[:3], k), np.int64), np.zeros((*own.q.shape[:3], k), self.asked.accumulate)
        for _, held in self.travel([own.k]):
            for meeting in self._meetings(held):
                rows = meeting.rows
                some = parts.top(meeting.problem, self.lse[:, :, rows], k)
                known = parts.heaviest([(found[0][:, :, rows], found[1][:, :, rows]), some], k)
                for both, part in zip(found, known, strict=True):
                    both[:, :, rows] = part
        indices, weights = parts.filled(found, k)
        return tensor(own.outward(indices)), tensor(own.outward(weights))


def chunk(length: int, i: int, size: int) -> range:
    """Positions of a chunk, of two for each process."""
    return range(i * length // (2 * size), (i + 1) * length // (2 * size))


def owned(rank: int, size: int) -> tuple[int, int]:
    """Numbers of the chunks of a process."""
    return rank, 2 * size - 1 - rank


def chunks(length: int, rank: int, size: int) -> list[range]:
    """What a process holds of so many positions."""
    return [chunk(length, i, size) for i in owned(rank, size)]


def meetings(asked: Problem, size: int, queries: Sequence[int], keys: Sequence[int]) -> dict[tuple[int, int], Place]:
    """Which queries and keys of these chunks see each other, of those chunks that do."""
    ranges = [chunk(asked.shape.S, j, size) for j in keys]
    found: dict[tuple[int, int], Place] = {}
    for i in queries:
        place = Place(asked.b, asked.h, chunk(asked.shape.T, i, size), range(0))
        found |= {(i, j): part for j, part in zip(keys, parts.meeting(asked, place, ranges), strict=True) if part.t}
    return found


def _shared(part: range, length: int, i: int, rank: int, size: int) -> slice:
    """Where a part of a process's chunk lies in its share, in which one chunk lies behind the other."""
    first = chunk(length, rank, size)
    before = 0 if i == rank else len(first)
    start = before + part.start - chunk(length, i, size).start
    return slice(start, start + len(part))


def _bytes(due: dict[int, range], arrays: Sequence[np.ndarray]) -> int:
    return sum(prod(x.shape[:2] + x.shape[3:]) * len(keys) * x.itemsize for keys in due.values() for x in arrays)


def _unpacked(buffer: np.ndarray, due: dict[int, range], arrays: Sequence[np.ndarray]) -> dict[int, Held]:
    found: dict[int, Held] = {}
    start = 0
    for j, keys in due.items():
        found[j] = Held(keys, [])
        for x in arrays:
            shape = *x.shape[:2], len(keys), *x.shape[3:]
            end = start + prod(shape) * x.itemsize
            found[j].arrays.append(buffer[start:end].view(x.dtype).reshape(shape))
            start = end
    return found
