"""What processes of a group say to each other, as far as the others still listen."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from overt.errors import ArgumentError, DtypeError, ProcessError, ShapeError
from overt.grid import dtype_name

T = TypeVar("T")
_NOTHING = np.empty(0, np.uint8)


def agreed(
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
    spoken(lambda: dist.all_gather(every, mine, group=group))
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


def exchanged(
    given: Sequence[np.ndarray], to: int, count: int, of: int, tag: int, group: dist.ProcessGroup | None
) -> Messages:
    """Send arrays to one process and receive so many bytes of another one."""
    sent = np.concatenate([np.ascontiguousarray(x).reshape(-1).view(np.uint8) for x in given] or [_NOTHING])
    room = np.empty(count, np.uint8)
    work = []
    if count:
        work.append(lambda: dist.irecv(torch.from_numpy(room), group=group, group_src=of, tag=tag))
    if sent.size:
        work.append(lambda: dist.isend(torch.from_numpy(sent), group=group, group_dst=to, tag=tag))
    return Messages([spoken(one) for one in work], room, [sent])


class Messages:
    """Something on its way."""

    def __init__(self, work: Sequence[Any], room: np.ndarray, kept: Sequence[np.ndarray]) -> None:
        # What is sent must stay where it is until it has arrived.
        self._work, self._room, self._kept = work, room, kept

    def wait(self) -> np.ndarray:
        """The bytes that have arrived."""
        for one in self._work:
            spoken(one.wait)
        self._work, self._kept = [], []
        return self._room

    @staticmethod
    def none() -> Messages:
        """No bytes, on their way from nowhere."""
        return Messages([], _NOTHING, [])


def spoken(said: Callable[[], T]) -> T:
    """What is said to other processes, as far as they still listen."""
    try:
        return said()
    except RuntimeError as error:
        raise ProcessError(f"another process of the group is gone, or does not answer: {error}") from None
