"""Attention over a sequence that is divided among the processes of a group: keys travel, queries stay.

Context parallelism: every process holds its share of the positions (``share``), and so a length that no process could
hold alone costs each of them its part.  Keys and values go from process to process while the ones before are worked on,
partial results merge by their log-sum-exp (Liu et al. 2023, arXiv:2310.01889), and gradients of keys and values go back
to their owners.  Masks and biases see positions in the whole sequence.

Two chunks a process, one from each half of the sequence, leave each of P processes the same work in each of P steps
where a mask is causal.

Tensors lie in the CPU's memory, and the group's backend is one for these, such as gloo.
"""

from __future__ import annotations

from typing import Any, Unpack

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from overt.attention import Options
from overt.biases import Bias
from overt.dropout import Dropout
from overt.errors import ArgumentError, ShapeError
from overt.grid import Array, shown, whole
from overt.masks import Mask
from overt.problem import Problem
from overt.scores import Score, scaled_dot
from overt.torch.arrays import array, tensor
from overt.torch.call import Call
from overt.torch.group import agreed, spoken
from overt.torch.tour import Tour, chunks

_SCALED_DOT = scaled_dot()


def share(x: Tensor, axis: int = -2, group: dist.ProcessGroup | None = None) -> Tensor:
    """A process's share of a tensor that all hold: two chunks of an axis, one of the first half, one of the second.

    The positions of a share, for rotary embeddings, are ``share(torch.arange(T), 0)``.
    """
    rank, size = dist.get_rank(group), dist.get_world_size(group)
    found = [x.narrow(axis, chunk.start, len(chunk)) for chunk in chunks(x.shape[axis], rank, size)]
    return torch.cat(found, dim=axis)


def gather(x: Tensor, axis: int = -2, group: dist.ProcessGroup | None = None) -> Tensor:
    """The whole tensor, on every process, from the shares of all; without gradients."""
    size = dist.get_world_size(group)
    x = x.detach().movedim(axis, 0).contiguous()
    length = torch.tensor([len(x)])
    spoken(lambda: dist.all_reduce(length, group=group))
    owned = [chunks(int(length), rank, size) for rank in range(size)]
    shares = [x.new_empty((sum(map(len, own)), *x.shape[1:])) for own in owned]
    if [len(part) for part in shares][dist.get_rank(group)] != len(x):
        raise ShapeError(f"this process has {len(x)} of {int(length)} positions (axis {axis}), which is not its share")
    most = max(map(len, shares))
    padded = [x.new_empty((most, *x.shape[1:])) for _ in range(size)]
    own = torch.cat([x, x.new_zeros((most - len(x), *x.shape[1:]))])
    spoken(lambda: dist.all_gather(padded, own, group=group))
    found = x.new_empty((int(length), *x.shape[1:]))
    for part, own_chunks in zip(padded, owned, strict=True):
        start = 0
        for chunk in own_chunks:
            found[chunk.start : chunk.stop] = part[start : start + len(chunk)]
            start += len(chunk)
    return found.movedim(0, axis)


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    num_threads: int | None = None,
    group: dist.ProcessGroup | None = None,
    **options: Unpack[Options],
) -> Tensor:
    """``overt.torch.attention`` of the shares of q (…, H, T, D), k (…, G, S, D) and v (…, G, S, E) that processes hold.

    It is the output of ``attend``, and takes the same: score, mask, bias, softcap, sinks and dropout.
    """
    return attend(q, k, v, num_threads=num_threads, group=group, **options).output


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
    dropout: Dropout | None = None,
    num_threads: int | None = None,
    group: dist.ProcessGroup | None = None,
) -> Attended:
    """The same operation, kept open: output and lse, which are differentiable, received, entropy and top.

    Every process of the group calls it with its own shares and the same options, and gets its share of the output
    (…, H, T, E).  Masks, biases and dropout are those of whole sequences.  Gradients of q, k and v are those of the sum
    of what all processes make of their outputs; those of sinks and of parameters of scores and biases are this
    process's part of it, to be summed over the group as those of any replicated parameter.

    Raises ShapeError, DtypeError or ArgumentError for what is wrong, on all processes; ProcessError where another
    process is gone or asks for something else, such as dropout from another seed.
    """
    options: dict[str, Any] = {"score": score, "mask": mask, "bias": bias, "softcap": softcap, "sinks": sinks}
    options |= {"dropout": dropout}

    def described() -> tuple[Call, Problem]:
        call = Call.of(q, k, v, num_threads=num_threads, **options)
        if q.device.type != "cpu":
            raise ArgumentError(
                f"q lies on {q.device}: overt.torch.ring computes on the CPU alone, move it with .cpu()"
            )
        own = Problem.of(array(q), array(k), array(v), score=call.score)
        return call, own

    call, own = agreed(described, (q, k, v), options, group)
    tour = Tour(call, own, group)
    output, lse = _Ring.apply(tour, q, k, v, *call.parameters.values())  # type: ignore[no-untyped-call]
    return Attended(tour, output, lse)


class Attended:
    """Attention of shares.  What it computes when it is asked, it asks of all processes: they call it together."""

    def __init__(self, tour: Tour, output: Tensor, lse: Tensor) -> None:
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


class _Ring(torch.autograd.Function):
    """Output and lse of a tour; the tensors after v are the call's parameters."""

    @staticmethod
    def forward(ctx: Any, tour: Tour, *tensors: Tensor) -> tuple[Tensor, Tensor]:
        output, lse = tour.forward()
        ctx.tour, ctx.found = tour, (output, lse)
        ctx.save_for_backward(*tensors)
        ctx.set_materialize_grads(False)
        own = tour.own
        rounded = tensor(own.outward(output)).to(tensors[0].dtype)
        return rounded, tensor(own.outward(lse.astype(own.accumulate)))

    @staticmethod
    def backward(ctx: Any, dy: Tensor | None, dlse: Tensor | None) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():
            # A second derivative that just lacks this part would be a wrong number.
            raise ArgumentError("overt.torch.ring has no derivative beyond the first: leave out create_graph=True")
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


_WIDE = {np.float32: torch.float32, np.float64: torch.float64}
