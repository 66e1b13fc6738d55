"""Attention over a sequence that is divided among the processes of a group: keys travel, queries stay.

Context parallelism: every process holds its share of the positions (``share``), and so a length that no process could
hold alone costs each of them its part.  Keys and values go from process to process while the ones before are worked on,
partial results merge by their log-sum-exp (Liu et al. 2023, arXiv:2310.01889), and gradients of keys and values go back
to their owners.  Masks and biases see positions in the whole sequence.

The sequence is cut into two chunks a process, of which process r has number r and number 2P − 1 − r.  So a causal mask
leaves each of P processes the same work in each of P steps.  In step n, process r works on keys of process r − n; those
that the mask hides from all its queries are not sent.

Tensors lie in the CPU's memory, and the group's backend is one for these, such as gloo.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from math import prod
from typing import Any, TypeVar

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor
from torch.autograd.function import once_differentiable

from overt import kernels, parts
from overt.biases import Bias
from overt.errors import ArgumentError, DtypeError, ProcessError, ShapeError
from overt.grid import Array, dtype_name, shown, whole
from overt.masks import Mask
from overt.parts import Place
from overt.problem import Problem
from overt.scores import Score, scaled_dot
from overt.torch.arrays import array, tensor
from overt.torch.call import Call

T = TypeVar("T")
_SCALED_DOT = scaled_dot()
# Keys on their way out, and what comes back of them.
_OUT, _BACK = 0, 1


def share(x: Tensor, axis: int = -2, group: dist.ProcessGroup | None = None) -> Tensor:
    """A process's share of a tensor that all hold: two chunks of an axis, one of the first half, one of the second.

    The positions of a share, for rotary embeddings, are ``share(torch.arange(T), 0)``.
    """
    rank, size = dist.get_rank(group), dist.get_world_size(group)
    found = [x.narrow(axis, chunk.start, len(chunk)) for chunk in _chunks(x.shape[axis], rank, size)]
    return torch.cat(found, dim=axis)


def gather(x: Tensor, axis: int = -2, group: dist.ProcessGroup | None = None) -> Tensor:
    """The whole tensor, on every process, from the shares of all; without gradients."""
    size = dist.get_world_size(group)
    x = x.detach().movedim(axis, 0).contiguous()
    length = torch.tensor([len(x)])
    _spoken(lambda: dist.all_reduce(length, group=group))
    owned = [_chunks(int(length), rank, size) for rank in range(size)]
    shares = [x.new_empty((sum(map(len, own)), *x.shape[1:])) for own in owned]
    if [len(part) for part in shares][dist.get_rank(group)] != len(x):
        raise ShapeError(f"this process has {len(x)} of {int(length)} positions (axis {axis}), which is not its share")
    most = max(map(len, shares))
    padded = [x.new_empty((most, *x.shape[1:])) for _ in range(size)]
    own = torch.cat([x, x.new_zeros((most - len(x), *x.shape[1:]))])
    _spoken(lambda: dist.all_gather(padded, own, group=group))
    found = x.new_empty((int(length), *x.shape[1:]))
    for part, chunks in zip(padded, owned, strict=True):
        start = 0
        for chunk in chunks:
            found[chunk.start : chunk.stop] = part[start : start + len(chunk)]
            start += len(chunk)
    return found.movedim(0, axis)


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    score: Score = _SCALED_DOT,
    mask: Mask | Tensor | None = None,
    bias: Bias | Array | None = None,
    softcap: float | None = None,
    sinks: Tensor | None = None,
    num_threads: int | None = None,
    group: dist.ProcessGroup | None = None,
) -> Tensor:
    """``overt.torch.attention`` of the shares of q (…, H, T, D), k (…, G, S, D) and v (…, G, S, E) that processes hold.

    Every process of the group calls it with its own shares and the same options, and gets its share (…, H, T, E) of the
    output.  Masks and biases are those of whole sequences.  Gradients of q, k and v are those of the sum of what all
    processes make of their outputs; those of sinks and of parameters of scores and biases are this process's part of
    it, to be summed over the group as those of any replicated parameter.

    Raises ShapeError, DtypeError or ArgumentError for what is wrong, on all processes; ProcessError where another
    process is gone or asks for something else.
    """
    options = {"score": score, "mask": mask, "bias": bias, "softcap": softcap, "sinks": sinks}
    return attend(q, k, v, **options, num_threads=num_threads, group=group).output  # type: ignore[arg-type]


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    score: Score = _SCALED_DOT,
    mask: Mask | Tensor | None = None,
    bias: Bias | Array | None = None,
    softcap: float | None = None,
    sinks: Tensor | None = None,
    num_threads: int | None = None,
    group: dist.ProcessGroup | None = None,
) -> Attended:
    """The same operation, kept open: output and lse, which are differentiable, received, entropy and top."""
    options: dict[str, Any] = {"score": score, "mask": mask, "bias": bias, "softcap": softcap, "sinks": sinks}

    def described() -> tuple[Call, Problem]:
        call = Call.of(q, k, v, num_threads=num_threads, dropout=None, **options)
        if q.device.type != "cpu":
            raise ArgumentError(
                f"q lies on {q.device}: overt.torch.ring computes on the CPU alone, move it with .cpu()"
            )
        own = Problem.of(array(q), array(k), array(v), score=call.score)
        return call, own

    call, own = _agreed(described, (q, k, v), options, group)
    tour = _Tour(call, own, group)
    output, lse = _Ring.apply(tour, q, k, v, *call.parameters.values())  # type: ignore[no-untyped-call]
    return Attended(tour, output, lse)


class Attended:
    """Attention of shares.  What it computes when it is asked, it asks of all processes: they call it together."""

    def __init__(self, tour: _Tour, output: Tensor, lse: Tensor) -> None:
        self._tour, self.output, self.lse = tour, output, lse

    def __repr__(self) -> str:
        return f"Attended(share of output {tuple(self.output.shape)}, {self._tour.asked!r})"

    def received(self) -> Tensor:
        """(…, H, S) attention that each key of this process receives from all queries."""
        return self._statistics()[0]

    def entropy(self) -> Tensor:
        """(…, H, T) entropy of each query of this process, in nats."""
        return self._statistics()[1]

    def _statistics(self) -> tuple[Tensor, Tensor]:
        if not hasattr(self, "_known"):
            self._known = self._tour.statistics()
        return self._known

    def top(self, k: int) -> tuple[Tensor, Tensor]:
        """Indices, in the whole sequence, and weights, each (…, H, T, k), of the k heaviest keys of each query."""
        S = self._tour.asked.shape.S
        if not 1 <= whole("k", k) <= S:
            raise ArgumentError(f"top(k) wants 1 ≤ k ≤ S = {S}, not {shown(k)}")
        return self._tour.top(k)


class _Tour:
    """One problem on its way around a group.

    asked: the whole, without arrays.  own: what this process holds of it, as arrays.  lse: of its queries, float64,
    once it has been forward.
    """

    def __init__(self, call: Call, own: Problem, group: dist.ProcessGroup | None) -> None:
        self.call, self.own, self.group = call, own, group
        self.rank, self.size = dist.get_rank(group), dist.get_world_size(group)
        lengths = torch.tensor([own.shape.T, own.shape.S])
        every = [torch.empty_like(lengths) for _ in range(self.size)]
        _spoken(lambda: dist.all_gather(every, lengths, group=group))
        T, S = (int(n) for n in torch.stack(every).sum(dim=0))
        for rank, held in enumerate(every):
            for name, n, length in zip(("q", "k"), held.tolist(), (T, S), strict=True):
                due = sum(map(len, _chunks(length, rank, self.size)))
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
        self.mine = _chunks(T, self.rank, self.size)
        # Where the chunks of a share lie in it.
        self.rows, self.keys = (_slices(_chunks(n, self.rank, self.size)) for n in (T, S))
        self.needs = _needs(self.asked, self.size)
        self.lse = np.empty(0)

    def owned(self, rank: int) -> tuple[int, int]:
        """Numbers of the chunks of a process."""
        return rank, 2 * self.size - 1 - rank

    def due(self, owner: int, reader: int) -> list[int]:
        """Numbers of those chunks of one process's keys that another one needs."""
        return [j for j in self.owned(owner) if any(self.needs[i, j] for i in self.owned(reader))]

    def range(self, j: int) -> range:
        """Keys of a chunk."""
        return _chunk(self.asked.shape.S, j, self.size)

    def place(self, i: int, j: int) -> Place:
        """Of one of this process's two chunks of queries, and any chunk of keys."""
        return Place(self.asked.b, self.asked.h, self.mine[i], self.range(j))

    def mine_of(self, arrays: Sequence[np.ndarray], j: int) -> list[np.ndarray]:
        """A chunk of this process's own keys."""
        rows = self.keys[self.owned(self.rank).index(j)]
        return [x[:, :, rows] for x in arrays]

    def travel(self, arrays: Sequence[np.ndarray]) -> Iterator[tuple[int, dict[int, list[np.ndarray]]]]:
        """Owner and needed chunks of these arrays (B, G, S, …) of every process, the next on its way meanwhile."""
        coming = self._sent_on(1, arrays)
        yield self.rank, {j: self.mine_of(arrays, j) for j in self.due(self.rank, self.rank)}
        for step in range(1, self.size):
            arrived, coming = coming, self._sent_on(step + 1, arrays)
            owner = (self.rank - step) % self.size
            yield owner, self._unpacked(arrived.wait(), self.due(owner, self.rank), arrays)
        coming.wait()

    def _sent_on(self, step: int, arrays: Sequence[np.ndarray]) -> _Messages:
        if step >= self.size:
            return _Messages([], np.empty(0, np.uint8), [])
        reader, owner = (self.rank + step) % self.size, (self.rank - step) % self.size
        given = [x for j in self.due(self.rank, reader) for x in self.mine_of(arrays, j)]
        return self._exchanged(given, reader, self._bytes(self.due(owner, self.rank), arrays), owner, _OUT)

    def returned(self, owner: int, sums: dict[int, list[np.ndarray]], like: Sequence[np.ndarray]) -> _Messages:
        """Give an owner what its chunks came to, while another process returns the same to this one."""
        reader = (2 * self.rank - owner) % self.size
        given = [x for j in self.due(owner, self.rank) for x in sums[j]]
        return self._exchanged(given, owner, self._bytes(self.due(self.rank, reader), like), reader, _BACK)

    def add(self, arrived: _Messages, reader: int, total: Sequence[np.ndarray]) -> None:
        """Add what a reader returned to the sums (B, G, S, …) of this process."""
        for j, found in self._unpacked(arrived.wait(), self.due(self.rank, reader), total).items():
            for mine, part in zip(self.mine_of(total, j), found, strict=True):
                mine += part

    def _bytes(self, numbers: Sequence[int], arrays: Sequence[np.ndarray]) -> int:
        return sum(prod(self._shape(j, x)) * x.itemsize for j in numbers for x in arrays)

    def _shape(self, j: int, x: np.ndarray) -> tuple[int, ...]:
        return *x.shape[:2], len(self.range(j)), *x.shape[3:]

    def _unpacked(
        self, buffer: np.ndarray, numbers: Sequence[int], arrays: Sequence[np.ndarray]
    ) -> dict[int, list[np.ndarray]]:
        found: dict[int, list[np.ndarray]] = {}
        start = 0
        for j in numbers:
            found[j] = []
            for x in arrays:
                shape = self._shape(j, x)
                end = start + prod(shape) * x.itemsize
                found[j].append(buffer[start:end].view(x.dtype).reshape(shape))
                start = end
        return found

    def _exchanged(self, given: Sequence[np.ndarray], to: int, count: int, of: int, tag: int) -> _Messages:
        """Send arrays to one process and receive so many bytes of another one."""
        sent = np.concatenate([np.ascontiguousarray(x).reshape(-1).view(np.uint8) for x in given] or [_NOTHING])
        room = np.empty(count, np.uint8)
        work = []
        if count:
            work.append(lambda: dist.irecv(torch.from_numpy(room), group=self.group, group_src=of, tag=tag))
        if sent.size:
            work.append(lambda: dist.isend(torch.from_numpy(sent), group=self.group, group_dst=to, tag=tag))
        return _Messages([_spoken(one) for one in work], room, [sent])

    def forward(self) -> tuple[np.ndarray, np.ndarray]:
        """Output, in the dtype of accumulation, and lse, float64, of this process's queries."""
        own, E = self.own, self.own.v.shape[-1]
        known: list[list[parts.Pair]] = [[] for _ in self.mine]
        for _, chunks in self.travel([own.k, own.v]):
            for i, number in enumerate(self.owned(self.rank)):
                for j, (k, v) in chunks.items():
                    if not self.needs[number, j]:
                        continue
                    problem = parts.block(
                        self.asked, own.q[:, :, self.rows[i]], k, v, self.place(i, j), first=not known[i]
                    )
                    y, lse = parts.forward(problem)
                    # A sum so far is one array, whatever the number of processes, and is rounded once, at the end.
                    known[i] = [parts.joined([*known[i], (y.astype(np.float64), lse)])]
        found = [pairs[0] if pairs else parts.blind(self.asked, self.place(i, 0), E) for i, pairs in enumerate(known)]
        output, self.lse = (np.concatenate([pair[n] for pair in found], axis=2) for n in (0, 1))
        output = output.astype(self.asked.accumulate, copy=False)
        return output, self.lse

    def backward(
        self, output: np.ndarray, lse: np.ndarray, dy: np.ndarray, dlse: np.ndarray | None, *, constant: bool
    ) -> tuple[list[np.ndarray], dict[str, Any]]:
        """Gradients (B, H, T, …) of this process's q, k and v, and by name its part of those of the parameters."""
        own, accumulate = self.own, self.asked.accumulate
        dq = np.zeros(own.q.shape, accumulate)
        total = [np.zeros(x.shape, accumulate) for x in (own.k, own.v)]
        others: dict[str, Any] = {}
        on_way: list[tuple[_Messages, int]] = []
        for owner, chunks in self.travel([own.k, own.v]):
            sums = {j: [np.zeros(x.shape, accumulate) for x in chunk] for j, chunk in chunks.items()}
            for i, number in enumerate(self.owned(self.rank)):
                rows = self.rows[i]
                for j, (k, v) in chunks.items():
                    if not self.needs[number, j]:
                        continue
                    problem = parts.block(self.asked, own.q[:, :, rows], k, v, self.place(i, j))
                    some = None if dlse is None else dlse[:, :, rows]
                    found = kernels.gradient(
                        problem, output[:, :, rows], lse[:, :, rows], dy[:, :, rows], some, constant=constant
                    )
                    dq[:, :, rows] += found.q
                    for both, part in zip(sums[j], (found.k, found.v), strict=True):
                        both += part
                    _add_named(others, found.bias, found.score)
            if owner == self.rank:
                for j, here in sums.items():
                    for mine, part in zip(self.mine_of(total, j), here, strict=True):
                        mine += part
                continue
            on_way.append((self.returned(owner, sums, total), (2 * self.rank - owner) % self.size))
            # One is on its way while the next is computed.
            if len(on_way) > 1:
                self.add(*on_way.pop(0), total)
        for arrived, reader in on_way:
            self.add(arrived, reader, total)
        if self.asked.sinks is not None:
            # A sink takes exp(sink − lse) of a row, which pulls on it as the weights of keys do.
            taken = np.exp(self.asked.sinks[:, None] - lse)
            pulled = -(output * dy).sum(axis=-1) + (0 if dlse is None else dlse)
            others["sinks"] = (taken * pulled).sum(axis=(0, 2))
        return [dq, *total], others

    def statistics(self) -> tuple[Tensor, Tensor]:
        """Received of this process's keys, and entropy of its queries."""
        own, accumulate = self.own, self.asked.accumulate
        received = np.zeros(own.k.shape[:1] + own.q.shape[1:2] + own.k.shape[2:3], accumulate)
        entropy = np.zeros(own.q.shape[:3], accumulate)
        on_way: list[tuple[_Messages, int]] = []
        for owner, chunks in self.travel([own.k]):
            sums = {j: [np.zeros((*received.shape[:2], k.shape[2]), accumulate)] for j, (k,) in chunks.items()}
            for i, j, problem in self._blocks(chunks):
                per_key, per_query = parts.statistics(problem, self.lse[:, :, self.rows[i]])
                sums[j][0] += per_key
                entropy[:, :, self.rows[i]] += per_query
            if owner == self.rank:
                for j, (found,) in sums.items():
                    self.mine_of([received], j)[0][...] += found
                continue
            on_way.append((self.returned(owner, sums, [received]), (2 * self.rank - owner) % self.size))
        for arrived, reader in on_way:
            self.add(arrived, reader, [received])
        return tensor(own.outward(received)), tensor(own.outward(entropy))

    def top(self, k: int) -> tuple[Tensor, Tensor]:
        """Of this process's queries."""
        own = self.own
        known: list[list[parts.Pair]] = [[] for _ in self.mine]
        for _, chunks in self.travel([own.k]):
            for i, _, problem in self._blocks(chunks):
                known[i].append(parts.top(problem, self.lse[:, :, self.rows[i]], k))
        for i, number in enumerate(self.owned(self.rank)):
            hidden = [self.range(j) for j in range(2 * self.size) if not self.needs[number, j]]
            rows = own.q[:, :, self.rows[i]].shape[:3]
            none = np.zeros((*rows, 0), np.int64), np.zeros((*rows, 0), self.asked.accumulate)
            known[i] = [parts.heaviest([*known[i], none], hidden, k)]
        indices, weights = (np.concatenate([pairs[0][n] for pairs in known], axis=2) for n in (0, 1))
        return tensor(own.outward(indices)), tensor(own.outward(weights))

    def _blocks(self, chunks: dict[int, list[np.ndarray]]) -> Iterator[tuple[int, int, Problem]]:
        """Those of this process's queries and some keys that see each other, without values."""
        for i, number in enumerate(self.owned(self.rank)):
            for j, (k,) in chunks.items():
                if self.needs[number, j]:
                    q = self.own.q[:, :, self.rows[i]]
                    yield i, j, parts.block(self.asked, q, k, k[..., :0], self.place(i, j))


class _Ring(torch.autograd.Function):
    """Output and lse of a tour; the tensors after v are the call's parameters."""

    @staticmethod
    def forward(ctx: Any, tour: _Tour, *tensors: Tensor) -> tuple[Tensor, Tensor]:
        output, lse = tour.forward()
        ctx.tour, ctx.found = tour, (output, lse)
        ctx.save_for_backward(*tensors)
        ctx.set_materialize_grads(False)
        own = tour.own
        rounded = tensor(own.outward(output)).to(tensors[0].dtype)
        return rounded, tensor(own.outward(lse.astype(own.accumulate)))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy: Tensor | None, dlse: Tensor | None) -> tuple[Tensor | None, ...]:
        tour, tensors, wanted = ctx.tour, ctx.saved_tensors, ctx.needs_input_grad[1:]
        output, lse = ctx.found
        own, wide = tour.own, tour.asked.accumulate
        # The others compute theirs, and need what this process has of it, even if nobody here does.
        slope = np.zeros(output.shape, wide) if dy is None else array(dy.to(_WIDE[wide])).reshape(output.shape)
        lse_slope = None if dlse is None else array(dlse).reshape(lse.shape).astype(wide, copy=False)
        names = list(tour.call.parameters)
        constant = not any(want for name, want in zip(names, wanted[3:], strict=True) if name.startswith("bias"))
        gradients, others = tour.backward(output, lse, slope, lse_slope, constant=constant)
        arrays = [own.unbroadcast(x, shape) for x, shape in zip(gradients, own.given, strict=True)]
        arrays += [others.get(name) for name in names]
        return None, *(
            tensor(np.ascontiguousarray(x)).to(like.dtype).reshape(like.shape) if want and x is not None else None
            for x, like, want in zip(arrays, tensors, wanted, strict=True)
        )


class _Messages:
    """Something on its way."""

    def __init__(self, work: Sequence[Any], room: np.ndarray, kept: Sequence[np.ndarray]) -> None:
        # What is sent must stay where it is until it has arrived.
        self._work, self._room, self._kept = work, room, kept

    def wait(self) -> np.ndarray:
        """The bytes that have arrived."""
        for one in self._work:
            _spoken(one.wait)
        self._work, self._kept = [], []
        return self._room


_NOTHING = np.empty(0, np.uint8)
_WIDE = {np.float32: torch.float32, np.float64: torch.float64}


def _add_named(others: dict[str, Any], bias: Any, score: dict[str, Any]) -> None:
    terms = bias if isinstance(bias, tuple) else () if bias is None else (bias,)
    named = {f"bias {i}": x for i, x in enumerate(terms)} | {f"score {name}": x for name, x in score.items()}
    for name, x in named.items():
        others[name] = others[name] + x if name in others else np.asarray(x)


def _chunk(length: int, i: int, size: int) -> range:
    return range(i * length // (2 * size), (i + 1) * length // (2 * size))


def _chunks(length: int, rank: int, size: int) -> list[range]:
    """What a process holds of so many positions."""
    return [_chunk(length, i, size) for i in (rank, 2 * size - 1 - rank)]


def _slices(chunks: Sequence[range]) -> list[slice]:
    """Where chunks lie that lie one behind the other."""
    first, second = map(len, chunks)
    return [slice(0, first), slice(first, first + second)]


def _needs(asked: Problem, size: int) -> np.ndarray:
    """Which chunks of queries see which chunks of keys."""
    keys = [_chunk(asked.shape.S, j, size) for j in range(2 * size)]
    places = (Place(asked.b, asked.h, _chunk(asked.shape.T, i, size), range(0)) for i in range(2 * size))
    return np.array([parts.seen(asked, place, keys) for place in places])


def _agreed(
    described: Callable[[], T], tensors: Sequence[Any], options: dict[str, Any], group: dist.ProcessGroup | None
) -> T:
    """What every process makes of its own arguments, if no process refuses, and if all ask for the same."""
    found, refusal = None, None
    try:
        found = described()
    except (ShapeError, DtypeError, ArgumentError) as error:
        refusal = error
    said = [
        (tuple(x.shape[:-2]), x.shape[-1], dtype_name(x)) if isinstance(x, Tensor) and x.ndim > 1 else None
        for x in tensors
    ]
    # Numbers of parameters need not be looked at; replicas have the same.
    asked = [tuple(x.shape) if isinstance(x, Tensor | np.ndarray) else repr(x) for x in options.values()]
    digest = hashlib.sha256(repr((said, asked)).encode()).digest()
    mine = torch.tensor([refusal is not None, int.from_bytes(digest[:7], "big")])
    every = [torch.empty_like(mine) for _ in range(dist.get_world_size(group))]
    _spoken(lambda: dist.all_gather(every, mine, group=group))
    if refusal is not None:
        raise refusal
    for rank, (failed, other) in enumerate(torch.stack(every).tolist()):
        if failed:
            raise ProcessError(f"process {rank} cannot take part: its own error says why")
        if other != int(mine[1]):
            raise ProcessError(
                f"process {rank} asks for something else than process {dist.get_rank(group)}: give the same options "
                "and, apart from their positions, the same shapes and dtypes"
            )
    assert found is not None
    return found


def _spoken(said: Callable[[], T]) -> T:
    """What is said to other processes, as far as they still listen."""
    try:
        return said()
    except RuntimeError as error:
        raise ProcessError(f"another process of the group is gone, or does not answer: {error}") from None
