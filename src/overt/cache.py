"""Keys and values seen so far, for decoding step by step."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import Any, Generic

import numpy as np
from array_api_compat import device, is_writeable_array

from overt.attended import Attended
from overt.attention import attend
from overt.biases import Bias, as_bias
from overt.errors import ArgumentError, DtypeError, ShapeError
from overt.grid import (
    Array,
    ArrayT,
    Cells,
    Shape,
    broadcasts,
    dtype_name,
    host,
    integers,
    is_elsewhere,
    plain,
    shown,
    whole,
)
from overt.masks import Mask, Plan, as_mask, causal
from overt.problem import check_softcap, check_values, common_dtype, namespace
from overt.scores import Score, as_score, scaled_dot

_SCALED_DOT = scaled_dot()
_CAUSAL = causal()


class Cache(Generic[ArrayT]):
    """Keys and values seen so far, for decoding step by step.

    ``append(k, v)`` adds positions k (…, G, N, D), v (…, G, N, E); ``attend(q)`` lets queries q (…, H, T, D), which
    stand at the last T positions, look at all of them.  The options are those of ``attention`` and hold for every
    step; the mask is causal unless another is given.  Arrays are NumPy's, tensors, or of any library, the same
    throughout.  Storage grows by doubling, where the library can write to arrays.

    ``crop`` forgets the last positions, ``reorder`` chooses beams, and ``keep`` keeps some keys and forgets the others.
    What is kept stands where it stood: masks and biases are asked about the position that a key had when it came.
    What an earlier ``attend`` gave stays as it was, whatever happens to the cache.
    """

    def __init__(
        self,
        *,
        score: Score = _SCALED_DOT,
        mask: Mask | None = _CAUSAL,
        bias: Bias | Array | None = None,
        softcap: float | None = None,
        sinks: Array | None = None,
    ) -> None:
        self._mask, self._bias = as_mask(mask), as_bias(bias, on_host=False)
        self._options: dict[str, Any] = {"score": as_score(score), "softcap": check_softcap(softcap), "sinks": sinks}
        self._k: Array | None = None
        self._v: Array | None = None
        self._length = self._end = 0
        # (…, G, S) where keys were left out: ascending, since keys are kept in order.
        self._positions: np.ndarray | None = None

    def __len__(self) -> int:
        """Number of keys that are held."""
        return self._length

    def __repr__(self) -> str:
        if self._k is None:
            return "Cache()"
        return f"Cache(keys {tuple(self.keys.shape)}, values {tuple(self.values.shape)} {dtype_name(self._k)})"

    @property
    def keys(self) -> ArrayT:
        """(…, G, S, D) all keys that are held, a view; read-only in NumPy."""
        return self._view(self._k, "keys")

    @property
    def values(self) -> ArrayT:
        """(…, G, S, E) all values that are held, a view; read-only in NumPy."""
        return self._view(self._v, "values")

    @property
    def positions(self) -> np.ndarray:
        """(…, G, S) the position of each key that is held: 0 … S − 1 unless ``keep`` left some out.  Read-only."""
        lead = self.keys.shape[:-2]
        held = np.arange(self._length) if self._positions is None else self._positions
        return np.broadcast_to(held, (*lead, self._length))

    @property
    def end(self) -> int:
        """The position that the next key will have: all that were appended and not cropped."""
        return self._end

    def append(self, k: ArrayT, v: ArrayT) -> None:
        """Add keys and values after the last position; what does not fit raises and leaves the cache as it was."""
        k, v = plain("k", k), plain("v", v)
        self._check(k, v)
        # What fails half-way, for want of memory, has written only beyond what is held.
        self._k, self._v = self._grown(self._k, k), self._grown(self._v, v)
        n = k.shape[-2]
        if self._positions is not None:
            new = np.broadcast_to(np.arange(self._end, self._end + n), (*self._positions.shape[:-1], n))
            self._positions = np.concatenate([self._positions, new], axis=-1)
        self._length += n
        self._end += n

    def attend(self, q: ArrayT) -> Attended[ArrayT]:
        """Attention of the queries at the last T positions to everything that is held."""
        keys, values = self.keys, self.values
        mask, bias = self._mask, self._bias
        if self._positions is not None:
            kept = _Kept(self._positions, self._end)
            mask = None if mask is None else _KeptMask(mask, kept)
            bias = None if bias is None else reduce(add, (_KeptBias(term, kept) for term in bias.terms))
        return attend(q, keys, values, mask=mask, bias=bias, **self._options)

    def crop(self, length: int) -> None:
        """Forget the positions from ``length`` on, as when a draft was refused: ``end`` is ``length`` then.

        Raises ArgumentError for more than ``end``, or where ``keep`` left some rows with more of these than others.
        """
        if whole("length", length) > self._end:
            raise ArgumentError(f"the cache ends at position {self._end}: crop to at most that, not {shown(length)}")
        if self._k is None:
            return
        if self._positions is None:
            count = length
        else:
            counts = (self._positions < length).sum(axis=-1)
            count = int(counts.max(initial=0))
            if (counts != count).any():
                raise ArgumentError(
                    f"{counts.min()} to {count} of the keys that each row holds lie before position {length}, "
                    "and no array has rows of different lengths: keep the same number in each"
                )
            self._positions = self._positions[..., :count]
        # The next append copies, so that what earlier results look at is not written over.
        self._k, self._v = self.keys[..., :count, :], self.values[..., :count, :]
        self._length, self._end = count, length

    def reorder(self, indices: Array) -> None:
        """Row i of the first leading axis becomes what row ``indices[i]`` was: beams that go on, (B′,) for any B′.

        Masks, biases and sinks stay as they are, so what they say for each row is for the rows as they are now.
        """
        keys, values = self.keys, self.values
        if keys.ndim < 4:
            raise ShapeError(f"the cache holds keys {tuple(keys.shape)} without a batch axis: there is none to reorder")
        rows = _indices("beams", indices, keys.shape[0])
        if rows.ndim != 1:
            raise ShapeError(f"indices of beams have shape {rows.shape}: give one axis, (B,)")
        xp = namespace(k=keys)
        at = xp.asarray(rows, device=device(keys))
        self._k, self._v = xp.take(keys, at, axis=0), xp.take(values, at, axis=0)
        if self._positions is not None:
            self._positions = self._positions[rows]

    def keep(self, indices: Array) -> None:
        """Keep the keys and values of these indices among those held (0 … S − 1) and forget all others.

        indices: (N,) for all, or (…, G, N), an own choice for each row and key head, such as the heaviest of
        ``received()`` (H2O, Zhang et al. 2023, arXiv:2306.14048; SnapKV, Li et al. 2024, arXiv:2404.14469).  Their
        order does not matter.  Kept keys stay at their positions, and new ones come after the last position ever.
        """
        keys, values = self.keys, self.values
        lead = tuple(keys.shape[:-2])
        given = _indices("keys to keep", indices, self._length)
        if given.ndim == 0 or not broadcasts(given.shape[:-1], lead):
            raise ShapeError(
                f"indices of keys to keep have shape {given.shape}: give (N,), or {(*lead, 'N')} for an own choice in "
                "each row and key head"
            )
        at = np.sort(np.broadcast_to(given, (*lead, given.shape[-1])), axis=-1)
        if (at[..., 1:] == at[..., :-1]).any():
            raise ArgumentError("indices of keys to keep name a key twice: give each once")
        xp = namespace(k=keys)
        own = xp.asarray(at[..., None], device=device(keys))
        k, v = (xp.take_along_axis(x, own, axis=-2) for x in (keys, values))
        self._positions = np.take_along_axis(self.positions, at, axis=-1)
        self._k, self._v, self._length = k, v, at.shape[-1]

    def _check(self, k: Array, v: Array) -> None:
        namespace(k=k, v=v)
        common_dtype(k=k, v=v)
        for name, x, axes in (("k", k, "N, D"), ("v", v, "N, E")):
            if x.ndim < 2:
                raise ShapeError(
                    f"{name} has shape {tuple(x.shape)}: give at least ({axes}), in general (…, G, {axes})"
                )
            if getattr(x, "requires_grad", False):
                raise ArgumentError(f"{name} wants a gradient, and a cache is written over: use torch.no_grad()")
        check_values(k, v)
        if tuple(k.shape[:-2]) != tuple(v.shape[:-2]):
            raise ShapeError(f"k {tuple(k.shape)} and v {tuple(v.shape)} differ in their leading axes: give the same")
        for name, new, held in (("k", k, self._k), ("v", v, self._v)):
            if held is None:
                continue
            if namespace(new=new) is not namespace(held=held):
                raise DtypeError(
                    f"{name} is a {type(new).__name__}, but the cache holds a {type(held).__name__}: convert {name}"
                )
            if new.dtype != held.dtype:
                raise DtypeError(
                    f"{name} is {dtype_name(new)}, but the cache holds {dtype_name(held)}: convert {name} with astype"
                )
            if device(new) != device(held):
                raise DtypeError(f"{name} is on {device(new)}, but the cache is on {device(held)}: move {name} there")
            if (*new.shape[:-2], new.shape[-1]) != (*held.shape[:-2], held.shape[-1]):
                raise ShapeError(
                    f"{name} has shape {tuple(new.shape)}, but the cache holds {tuple(self._view(held, name).shape)}: "
                    "only the axis of positions (-2) may differ"
                )

    def _grown(self, held: Array | None, new: Array) -> Array:
        if held is not None and not new.shape[-2]:
            return held
        xp, end = namespace(new=new), self._length + new.shape[-2]
        if held is None or end > held.shape[-2]:
            room = *new.shape[:-2], 1 << max(end - 1, 15).bit_length(), new.shape[-1]
            grown = xp.empty(room, dtype=new.dtype, device=device(new))
            if not is_writeable_array(grown):
                return new if held is None else xp.concat([held, new], axis=-2)
            if held is not None:
                grown[..., : self._length, :] = held[..., : self._length, :]
            held = grown
        held[..., self._length : end, :] = new
        return held

    def _view(self, held: Array | None, name: str) -> Array:
        if held is None:
            raise ArgumentError(f"the cache holds no {name} yet: append(k, v) first")
        view = held[..., : self._length, :]
        if isinstance(view, np.ndarray):
            view.flags.writeable = False
        return view


@dataclass(frozen=True, eq=False)
class _Kept:
    """Some keys of a longer row: what masks and biases are asked about is the whole row, at the keys that are left."""

    positions: np.ndarray
    end: int

    def whole(self, shape: Shape) -> Shape:
        """The score matrix before keys were left out."""
        return Shape(shape.batch, shape.H, shape.T, self.end)

    def heads(self, shape: Shape) -> np.ndarray:
        """(B, H, S), a view."""
        *lead, S = self.positions.shape
        G = lead[-1] if lead else 1
        rows = self.positions.reshape(*lead[:-1], G, 1, S)
        rows = np.broadcast_to(rows, (*shape.batch, G, shape.H // max(G, 1), S))
        return rows.reshape(shape.B, shape.H, S)

    def cells(self, cells: Cells) -> Cells:
        """The cells of the whole that these cells were."""
        own = cells.pick(self.heads(cells.shape), cells.b, cells.h, cells.s)
        return replace(cells, shape=self.whole(cells.shape), s=own)


@dataclass(frozen=True, eq=False)
class _KeptMask(Mask):
    inner: Mask
    kept: _Kept

    def __repr__(self) -> str:
        return f"{self.inner!r} of the keys kept"

    def visible(self, cells: Cells) -> np.ndarray:
        return self.inner.visible(self.kept.cells(cells))

    def check(self, shape: Shape) -> None:
        self.inner.check(self.kept.whole(shape))

    def _plan(self, rows: Cells) -> Plan:
        plan = self.inner._plan(replace(rows, shape=self.kept.whole(rows.shape)))
        full, positions = (rows.b.size, rows.h.size, rows.t.size), self.kept.heads(rows.shape)
        edges = np.zeros((2, *full), np.int64)
        for edge, given in zip(edges, (plan.first, plan.last), strict=True):
            given = np.broadcast_to(given, full)
            for i, j in np.ndindex(full[:2]):
                # Where a span of the whole row begins or ends among what is left of it.
                edge[i, j] = np.searchsorted(positions[rows.b.flat[i], rows.h.flat[j]], given[i, j])
        return Plan(edges[0], edges[1], None if plan.rest is None else _KeptMask(plan.rest, self.kept))


@dataclass(frozen=True, eq=False)
class _KeptBias(Bias):
    inner: Bias
    kept: _Kept

    def __repr__(self) -> str:
        return f"{self.inner!r} of the keys kept"

    @property
    def parameter(self) -> Any:
        return self.inner.parameter

    def exchanged(self, parameter: Any) -> Bias:
        return _KeptBias(self.inner.exchanged(parameter), self.kept)

    def check(self, shape: Shape) -> None:
        self.inner.check(self.kept.whole(shape))

    def at(self, cells: Cells) -> Array:
        return self.inner.at(self.kept.cells(cells))

    def view(self, shape: Shape, dtype: np.dtype, t: range | None = None, s: range | None = None) -> None:
        return None

    def pull(self, gradient: np.ndarray, cells: Cells, into: Any) -> None:
        shape, positions = self.kept.whole(cells.shape), self.kept.heads(cells.shape)
        for i, b in enumerate(cells.b.reshape(-1)):
            for j, h in enumerate(cells.h.reshape(-1)):
                own = Cells(shape, np.full((1, 1, 1, 1), b), np.full((1, 1, 1), h), cells.t, positions[b, h, cells.s])
                self.inner.pull(gradient[i : i + 1, j : j + 1], own, into)


def _indices(name: str, given: Array, count: int) -> np.ndarray:
    name = f"indices of {name}"
    # Where keys stand is known on the host.
    given = host(name, given) if is_elsewhere(given) else given
    indices = integers(name, np.zeros(0, np.int64) if np.size(given) == 0 else given)
    if indices.size and (indices.min() < 0 or indices.max() >= count):
        raise ArgumentError(f"{name} must lie in 0…{count - 1}, not {indices.min()}…{indices.max()}")
    return indices
