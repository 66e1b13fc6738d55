"""Processes that train together, as torchrun starts them: each takes its shares of a batch, and all know the sum.

A batch is divided into shares, whose number a run keeps; processes take turns in taking one.  Gradients are added up in
the order of the shares, by each process for its part of the parameters, so that their sum has the same bits whatever
the number of processes is: no all-reduce promises that.  What travels is what travels in an all-reduce.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from overt.errors import ProcessError

T = TypeVar("T")
# One share: its part of the loss, and the gradients of all parameters.
Share = tuple[float, list[Tensor]]


class Team:
    """The process ``rank`` of ``size``; one alone asks nobody."""

    def __init__(self, rank: int = 0, size: int = 1) -> None:
        self.rank, self.size = rank, size

    @property
    def leads(self) -> bool:
        """Whether this process writes files and says what happens."""
        return self.rank == 0

    def sum(self, own: Sequence[Share], count: int, like: Sequence[Tensor]) -> Share:
        """Sum of so many shares, of which process p holds numbers p, p + size, …, in their order."""
        if self.size == 1:
            (loss, gradients), *others = own
            for other, more in others:
                loss += other
                torch._foreach_add_(gradients, more)
            return loss, gradients
        whole = sum(x.numel() for x in like)
        part = -(-whole // self.size)
        total = torch.zeros(part)
        loss = 0.0
        for turn in range(-(-count // self.size)):
            given, room = torch.zeros(self.size * part), torch.empty(self.size * part)
            losses = torch.zeros(self.size, dtype=torch.float64)
            if turn < len(own):
                torch.cat([x.reshape(-1) for x in own[turn][1]], out=given[:whole])
                losses[self.rank] = own[turn][0]
            _heard(dist.all_to_all_single, room, given)
            _heard(dist.all_reduce, losses)
            for number, piece in enumerate(room.view(self.size, part)[: count - turn * self.size]):
                first = turn == number == 0
                total = piece.clone() if first else total.add_(piece)
                loss = float(losses[0]) if first else loss + float(losses[number])
        pieces = [torch.empty_like(total) for _ in range(self.size)]
        _heard(dist.all_gather, pieces, total)
        flat = torch.cat(pieces)[:whole]
        parts = torch.split(flat, [y.numel() for y in like])
        return loss, [x.view_as(y) for x, y in zip(parts, like, strict=True)]

    def any(self, number: int) -> int:
        """The largest of what the processes say, known to all of them."""
        if self.size == 1:
            return number
        largest = torch.tensor([number])
        _heard(dist.all_reduce, largest, dist.ReduceOp.MAX)
        return int(largest)


@contextmanager
def assembled() -> Iterator[Team]:
    """The team that torchrun has started, or one process alone."""
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size == 1:
        yield Team()
        return
    _heard(dist.init_process_group, "gloo")
    try:
        yield Team(dist.get_rank(), size)
    finally:
        dist.destroy_process_group()


def _heard(said: Callable[..., T], *given: Any) -> T:
    try:
        return said(*given)
    except RuntimeError as error:
        raise ProcessError(
            f"another process of this training is gone, or does not answer ({error}); --resume goes on, with any "
            "number of processes"
        ) from None
