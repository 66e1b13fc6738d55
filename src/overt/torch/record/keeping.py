"""What is kept of a call: statistics alone, or queries and keys from which any cell can be computed later."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from overt import kernels
from overt.errors import ArgumentError, DtypeError, RecordingError
from overt.grid import shown
from overt.torch import blocks
from overt.torch.record.arrays import array
from overt.torch.record.call import Call, called
from overt.torch.record.visible import Visible

KEEP = ("statistics", "qk", "disk")
Where = np.ndarray | Tensor


@dataclass(eq=False)
class Statistics:
    """What can be said of a call without its cells.

    received (B, H, S), entropy (B, H, T), indices and weights of the heaviest keys (B, H, T, N), and the weight
    (B, H, T) of the key before the query's own and of the key after the last one with the query's token, NaN for none.
    On the device of the model, until somebody asks; arrays where that is the CPU.
    """

    received: Where
    entropy: Where
    top: tuple[Where, Where] | None
    previous: Where
    induction: Where | None

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        tensors = (self.received, self.entropy, self.previous, self.induction, *(self.top or ()))
        return sum(x.nbytes for x in tensors if x is not None)


class Numbers(Protocol):
    """An array that is somewhere."""

    @property
    def array(self) -> np.ndarray:
        """The array, now."""
        ...

    @property
    def nbytes(self) -> int:
        """Bytes of memory that it takes."""
        ...


class Held:
    """A tensor that the model made and still may write to: what it holds later is what it held then, or an error."""

    def __init__(self, x: Tensor, where: str) -> None:
        x = x.detach()
        # What lies in memory that is larger, such as a cache with room to spare, and what keeps no account of being
        # written to, is copied; of heads that are one, once.
        self._shape = x.shape
        if 0 in x.stride():
            x = x[tuple(slice(None if stride else 1) for stride in x.stride())]
        if x.is_inference() or x.untyped_storage().nbytes() > x.nbytes:
            x = x.clone()
        self._x, self._version, self._where = x, None if x.is_inference() else x._version, where

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self._x.nbytes

    @property
    def array(self) -> np.ndarray:
        """The numbers, unless somebody wrote over them."""
        if self._version is not None and self._x._version != self._version:
            raise RecordingError(
                f"{self._where}: the model has written over the memory of its queries or keys since; "
                'record with keep="statistics" or keep="disk", or under torch.inference_mode()'
            )
        return array(self._x.expand(self._shape))


class Stored:
    """An array in a file of its own, mapped into memory when it is asked for."""

    nbytes = 0

    def __init__(self, x: Tensor, path: Path) -> None:
        self._path = path
        np.save(path, array(x), allow_pickle=False)

    @property
    def array(self) -> np.ndarray:
        """The numbers, as far as they are looked at."""
        # NumPy maps no empty file.
        empty = self._path.stat().st_size <= 128
        return np.load(self._path, mmap_mode=None if empty else "r", allow_pickle=False)


@dataclass(eq=False)
class Link:
    """One call as it is kept, and its place in the matrix of its attention: see ``chain``.

    q (B, H, T, D) and k (B, G, new keys, D), or weights (B, H, T, S), or none of them.  counts (B or 1, H or 1, T) are
    how many keys each query sees, start (B or 1,) is the first that anybody sees, and ends (B or 1, H or 1, T or 1)
    where those that a query sees end.
    """

    way: str
    step: int
    scale: float
    softcap: float | None
    sinks: np.ndarray | None
    visible: Visible
    heads: int
    key_heads: int
    batch: int
    T: int
    S: int
    wide: Any
    lse: Tensor
    counts: np.ndarray
    start: np.ndarray
    ends: np.ndarray
    deviation: float | None = None
    statistics: Statistics | None = None
    q: Numbers | None = None
    k: Numbers | None = None
    weights: Numbers | None = None
    bias: np.ndarray | None = None
    ids: np.ndarray | None = None
    past: int = 0
    offset: int = 0
    row: int = 0
    order: np.ndarray | None = None

    @property
    def nbytes(self) -> int:
        """Bytes held, without masks and biases, which layers share."""
        return sum(x.nbytes for x in (self.q, self.k, self.weights, self.lse, self.statistics) if x is not None)


class Keeper:
    """Makes links of calls, and never holds more bytes than allowed."""

    def __init__(self, keep: str, top: int, limit: int | None, folder: str | Path | None) -> None:
        if keep not in KEEP:
            raise ArgumentError(f"keep must be one of {', '.join(KEEP)}, not {keep!r}")
        if folder is not None and not isinstance(folder, str | Path):
            raise DtypeError(f"folder must be the name of a folder, not {shown(folder)}")
        if folder is not None and keep != "disk":
            raise ArgumentError(f'folder is for keep="disk", not for keep={keep!r}')
        self.keep, self.top, self.limit = keep, top, limit
        self.held = 0
        self._files = 0
        if keep == "disk":
            if folder is None:
                folder = tempfile.mkdtemp(prefix="overt-")
                # It goes with the recording, or at exit.
                weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
            elif not Path(folder).is_dir():
                raise ArgumentError(f"{folder} is no folder: make it first")
        self._folder = None if folder is None else Path(folder)

    def allow(self, call: Call, name: str) -> None:
        """Raise before memory is spent on a call that there is no room for."""
        if self.limit is None:
            return
        need = self._need(call)
        if self.held + need > self.limit:
            ways = {"statistics": "choose fewer layers", "disk": "choose fewer layers"}
            how = ways.get(self.keep, 'choose fewer layers, or keep="statistics" or keep="disk"')
            raise RecordingError(
                f"{called(name)}: recording it takes {need:,} bytes, and {self.held:,} of the limit of {self.limit:,} "
                f"are held already: {how}, or raise limit="
            )

    def link(self, call: Call, name: str, step: int, new: slice, ids: np.ndarray | None) -> Link:
        """Keep a call; ``new`` are the keys that are not kept already."""
        B, H, T, S = call.sizes
        assert call.lse is not None
        link = Link(
            call.way,
            step,
            call.scale,
            call.softcap,
            None if call.sinks is None else array(call.sinks.to(call.wide)),
            call.visible,
            H,
            call.k.shape[1],
            B,
            T,
            S,
            np.float64 if call.wide == torch.float64 else np.float32,
            call.lse,
            _counts(call),
            _start(call),
            ends(call),
            ids=ids,
        )
        if self.keep == "statistics":
            if call.visible.rest is not None or call.visible.alike is not None:
                # Booleans for each cell are not linear.
                link.visible = call.visible.edges
        else:
            if call.weights is not None:
                link.weights = self._hold(call.weights, name)
            else:
                k = call.k[:, :, new]
                # A cache that has room to spare is written to at the next step.
                spare = k.shape[2] == S > link.ends.max(initial=0)
                link.q, link.k = self._hold(call.q, name), self._hold(k.clone() if spare else k, name)
                link.bias = None if call.bias is None else array(call.bias.to(call.wide))
        return link

    def add(self, link: Link, statistics: Statistics | None) -> None:
        """Count what a link holds, statistics included."""
        link.statistics = statistics
        if self.limit is not None:
            self.held += link.nbytes

    def _hold(self, x: Tensor, name: str) -> Held | Stored:
        if self._folder is None:
            return Held(x, called(name))
        self._files += 1
        return Stored(x, self._folder / f"{self._files}.npy")

    def _need(self, call: Call) -> int:
        B, H, T, S = call.sizes
        wide = 8 if call.wide == torch.float64 else 4
        need = B * H * T * wide
        if self.keep == "statistics":
            return need + B * H * ((S + 3 * T) * wide + T * min(self.top, S) * (8 + wide))
        if self.keep == "disk":
            return need
        return need + (call.q.nbytes + call.k.nbytes if call.weights is None else call.weights.nbytes)


def statistics(call: Call, top: int, keys: np.ndarray, rows: range) -> tuple[Statistics, np.ndarray | None]:
    """Everything about a call that needs no cells later, computed where the model is.

    keys: int32 (1 or 2, B, T), the key before each query's own, and the one after the last query with its token, −1 for
    none.  rows: queries that are compared with the model's own output, see ``kernels.picked``; None where that does not
    come along.
    """
    S = call.sizes[3]
    assert call.lse is not None
    chosen: tuple[Where, Where] | None = None
    received: Where
    entropy: Where
    if call.near and call.weights is None and call.along is None:
        received, entropy, picked, off = _picked(call, keys, rows)
        if top:
            chosen = kernels.top(call.problem(), array(call.lse), min(top, S))
        return Statistics(received, entropy, chosen, picked[0], picked[1] if len(picked) > 1 else None), off
    if call.weights is not None:
        weights = call.weights.to(call.wide)
        received, entropy = weights.sum(-2), -torch.xlogy(weights, weights).sum(-1)
        if top:
            # torch breaks ties as it likes, this to the lower index.
            indices = weights.argsort(dim=-1, descending=True, stable=True)[..., : min(top, S)]
            chosen = indices, weights.gather(-1, indices)
    elif call.along is not None:
        received, entropy = call.along
        if top:
            chosen = kernels.top(call.problem(), array(call.lse), min(top, S))
    else:
        problem = blocks.widened(call.problem())
        received, entropy = blocks.statistics(problem, call.lse)
        if top:
            chosen = blocks.top(problem, call.lse, min(top, S))
    each = [call.at(some) for some in keys]
    return Statistics(received, entropy, chosen, each[0], each[1] if len(each) > 1 else None), None


def _picked(call: Call, keys: np.ndarray, rows: range) -> tuple[np.ndarray, ...]:
    """Received, entropy, weights of single keys and what whole rows make, by the kernels."""
    assert call.lse is not None
    if call.bias is None and call.softcap is None and call.visible.rest is None and call.q.dtype == torch.float32:
        spans, threads = call.visible.spans(*call.sizes[:3]), torch.get_num_threads()
        found = kernels.plain_picked(
            call.q, call.k, call.v, call.scale, *spans, call.lse, keys, rows, call.output, threads
        )
        if found is not None:
            return found
    output = array(call.output.to(call.q.dtype)) if rows else None
    return kernels.picked(call.problem(values=bool(rows)), array(call.lse), keys, rows, output)


def _counts(call: Call) -> np.ndarray:
    """How many keys each query sees, (B or 1, H or 1, T)."""
    if call.weights is None:
        return call.visible.counted(call.sizes[2])
    return array((call.weights > 0).sum(-1))


def _start(call: Call) -> np.ndarray:
    """The first key that anybody sees, (B or 1,)."""
    if call.weights is None:
        return call.visible.start
    return array((call.weights > 0).any(2).any(1).to(torch.uint8).argmax(-1))


def ends(call: Call) -> np.ndarray:
    """Where the keys that each query sees end, (B or 1, H or 1, T or 1)."""
    if call.weights is None:
        return (call.visible.meant or call.visible).last
    seen = call.weights > 0
    return array(torch.where(seen.any(-1), seen.shape[-1] - seen.flip(-1).to(torch.uint8).argmax(-1), 0))
