"""Attention of arrays in files, into files: lengths of which only a block fits into memory.

Queries are worked on some rows at a time, keys some at a time, with the statistics in a second pass over the keys of
the same rows by the lse of whole rows.  What is done is written down every few seconds, so that a run that was stopped
goes on; memory beside the arrays themselves, which the system pages in and out, is the same at every length.
"""

from __future__ import annotations

import hashlib
import io
import json
import time
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from overt import parts
from overt.biases import Bias
from overt.errors import ArgumentError, FileError
from overt.grid import Array, Shape, shown, whole
from overt.masks import Mask
from overt.parts import Place
from overt.problem import Problem
from overt.scores import Score, scaled_dot
from overt.writing import alone, located, replaced

_SCALED_DOT = scaled_dot()
# Numbers of a block of queries, of all heads that share their keys, and of a block of keys; and the most keys of that.
# With these the kernels' own memory stays the same from call to call, which else the system's allocator would spread.
_ROWS, _KEYS, _MOST_KEYS = 1 << 19, 1 << 20, 1 << 14
# Cells of a block, a second or two of a core's time, after which one hears how much is left.
_CELLS = 1 << 30
# Seconds after which what is done is written down.
_SAVED = 10.0
_STATE, _LOCK, _SAID = "unfinished.npz", "unfinished.lock", "attention.json"
_MAGIC = b"\x93NUMPY"
_ARRAYS = ("output", "lse", "received", "entropy", "indices", "weights")


@dataclass(frozen=True)
class Stored:
    """What ``attend`` has written to a folder, as arrays in the memory of the files, of the rows that it was asked.

    output (…, H, T, E) in the dtype of q; lse and entropy (…, H, T), received (…, H, S), which these rows give, and the
    heaviest keys of each row, indices and weights (…, H, T, top), in float32, or float64 for float64.
    identity: which arrays and options gave them, as ``identity`` says it; "" where that was not written down.
    """

    folder: Path
    rows: range
    output: np.ndarray
    lse: np.ndarray
    received: np.ndarray
    entropy: np.ndarray
    indices: np.ndarray | None
    weights: np.ndarray | None
    identity: str

    @staticmethod
    def of(folder: str | Path) -> Stored:
        """Open a folder.  Raises FileError where no finished attention is in it."""
        folder = located(folder)
        try:
            said = json.loads((folder / _SAID).read_text())
            rows, identity = range(*said["rows"]), str(said.get("identity", ""))
        except (OSError, ValueError, KeyError, TypeError):
            raise FileError(f"{folder} holds no finished attention: overt attend writes it, --resume goes on") from None
        found = {name: mapped(folder / f"{name}.npy") if name in said["arrays"] else None for name in _ARRAYS}
        return Stored(folder, rows, **found, identity=identity)  # type: ignore[arg-type]  # two of them may be None


def attend(
    folder: str | Path,
    q: str | Path | np.ndarray,
    k: str | Path | np.ndarray,
    v: str | Path | np.ndarray,
    *,
    score: Score = _SCALED_DOT,
    mask: Mask | Array | None = None,
    bias: Bias | Array | None = None,
    softcap: float | None = None,
    sinks: Array | None = None,
    rows: range | None = None,
    top: int = 8,
    num_threads: int | None = None,
    resume: bool = False,
    overwrite: bool = False,
    report: Callable[[int, int], None] | None = None,
) -> Stored:
    """Attention of q (…, H, T, D), k (…, G, S, D) and v (…, G, S, E) of .npy files or arrays, written to a folder.

    rows: which queries, by default all; received is what these give.  top: how many of the heaviest keys of each row,
    0 for none.  Other arguments are those of ``overt.attention``.
    report: told how many cells of the score matrix are done, and of how many, after each block.

    resume: go on where a run of the same arrays and options was stopped; overwrite: begin anew where something is.
    Both together go on where a run has not ended, and else begin anew.
    Memory beyond that of the arrays is at most 64 MiB.  Raises FileError for what cannot be read, written or resumed.
    """
    given = [x if isinstance(x, np.ndarray) else mapped(Path(x)) for x in (q, k, v)]
    options: dict[str, Any] = {"score": score, "mask": mask, "bias": bias, "softcap": softcap, "sinks": sinks}
    problem = Problem.of(*given, num_threads=num_threads, **options)
    T, S = problem.shape.T, problem.shape.S
    rows = range(T) if rows is None else rows
    if not (rows.step == 1 and 0 <= rows.start <= rows.stop <= T and (rows or not T)):
        raise ArgumentError(f"rows must be a range of 0…{T} with step 1 and some row, not {rows!r}")
    if whole("top", top) > S:
        raise ArgumentError(f"top must be at most S = {S}, not {shown(top)}")
    folder = located(folder)
    written = [path for name in _ARRAYS for path in (folder / f"{name}.npy", _part(folder, name))]
    for name, x in zip("qkv", given, strict=True):
        read = x.filename if isinstance(x, np.memmap) else None
        if read and any(path.exists() and path.samefile(read) for path in written):
            raise FileError(f"{name} is {read}, which would be written over: choose another folder for the results")
    with alone(folder, _LOCK):
        return _Run(folder, problem, rows, top, resume, overwrite).run(report or (lambda done, total: None))


class _Run:
    """One run, which may be stopped anywhere and goes on from what it wrote last."""

    def __init__(self, folder: Path, problem: Problem, rows: range, top: int, resume: bool, overwrite: bool) -> None:
        self.folder, self.problem, self.rows, self.top = folder, problem, rows, top
        self.asked = replace(problem, q=problem.q[:0], k=problem.k[:0], v=problem.v[:0])
        self.state = folder / _STATE
        there = any(path.name != _LOCK for path in folder.iterdir())
        begun, why = self.state.exists(), ""
        if begun and not resume:
            why = f"{folder} holds a run that has not ended: --resume goes on, --overwrite begins anew"
        elif not begun and (folder / _SAID).exists():
            why = f"{folder} is finished: overt show {folder} shows it; --overwrite begins anew"
        elif not begun and resume:
            why = f"there is nothing to resume in {folder}: leave out --resume (resume=True)"
        elif not begun and there:
            why = f"{folder} is not empty: --overwrite writes there all the same"
        if why and not overwrite:
            raise FileError(f"{why}, or choose another folder")
        resume = resume and begun
        self.identity = identity(problem, rows, top)
        B, H, S = problem.shape.B, problem.shape.H, problem.shape.S
        wide, E, T = np.dtype(problem.accumulate), problem.v.shape[-1], len(rows)
        self.shapes: dict[str, tuple[tuple[int, ...], np.dtype]] = {
            "output": ((B, H, T, E), problem.q.dtype),
            "lse": ((B, H, T), wide),
            "received": ((B, H, S), wide),
            "entropy": ((B, H, T), wide),
        }
        if top:
            self.shapes |= {"indices": ((B, H, T, top), np.dtype(np.int64)), "weights": ((B, H, T, top), wide)}
        per_key = H // max(problem.k.shape[1], 1)
        wider = max(problem.q.shape[-1], E, 1)
        for name in self.shapes:
            if 0 in self._shape(name):
                raise ArgumentError(f"there are no numbers to write: {name} would have shape {self._shape(name)}")
        self.step = max(_ROWS // (per_key * wider), 16)
        self.key_step = min(max(_KEYS // wider, 256), _MOST_KEYS)
        # What a run of the same identity has done, in blocks, and what keys of the group of heads received meanwhile.
        # The last block and what keys of its span have received with it are told in one assignment, and noted in the
        # array as often as one likes: wherever a run stops, a block is done and counted, or neither.
        self.last: tuple[int, slice, Any] = 0, slice(0), 0
        self.received = np.zeros((per_key, S))
        if resume:
            self._restore()
        else:
            # Before what it tells of is gone.
            self.state.unlink(missing_ok=True)
        self.arrays = {name: self._array(name, new=not resume) for name in self.shapes}
        self.saved = time.monotonic()

    def run(self, report: Callable[[int, int], None]) -> Stored:
        begun = time.monotonic()
        blocks = list(self._blocks())
        # Spans say how much is left, whatever else a mask hides inside them.
        cells = [self._cells(place) for place in blocks]
        begun_at = self.last[0]
        total, done = sum(cells), sum(cells[:begun_at])
        report(done, total)
        if not begun_at:
            self._save()
        try:
            for number, (place, count) in list(enumerate(zip(blocks, cells, strict=True), 1))[begun_at:]:
                self.last = number, *self._compute(place)
                self._note()
                done += count
                report(done, total)
                if time.monotonic() - self.saved > _SAVED:
                    self._save()
        except BaseException:
            self._save()
            raise
        # It tells of what is replaced.
        (self.folder / _SAID).unlink(missing_ok=True)
        for name, array in self.arrays.items():
            array.flush()
            _part(self.folder, name).replace(self.folder / f"{name}.npy")
        said = {
            "arrays": list(self.shapes),
            "rows": [self.rows.start, self.rows.stop],
            "identity": self.identity,
            "problem": repr(self.problem),
            "cells": total,
            "seconds": round(time.monotonic() - begun, 3),
        }
        with replaced(self.folder / _SAID) as file:
            file.write(json.dumps(said, ensure_ascii=False, indent=2).encode())
        self.state.unlink()
        return Stored.of(self.folder)

    def _blocks(self) -> Iterator[Place]:
        """Rows of all heads that share their keys, in order."""
        shape, per_key = self.problem.shape, len(self.received)
        for b in range(shape.B):
            for h in range(0, shape.H, max(per_key, 1)):
                for t in range(self.rows.start, self.rows.stop, self.step):
                    queries = range(t, min(t + self.step, self.rows.stop))
                    place = Place(range(b, b + 1), range(h, h + per_key), queries, range(shape.S))
                    step = max(len(queries) * _CELLS // max(self._cells(place), 1), 16)
                    for start in range(0, len(queries), step):
                        yield place._replace(t=queries[start : start + step])

    def _spans(self, place: Place) -> tuple[int, int, int]:
        """First and past-the-last key that any row of a block may see, and how many cells its spans hold."""
        S, mask = self.problem.shape.S, self.problem.mask
        rows = len(place.h) * len(place.t)
        if mask is None:
            return 0, S, rows * S
        full = len(place.b), len(place.h), len(place.t)
        plan = mask.lowered(replace(self.asked, **place._asdict()).cells)
        first, last = (np.broadcast_to(edge, full) for edge in plan[:2])
        some = first < last
        if not some.any():
            return 0, 0, 0
        return int(first[some].min()), int(last[some].max()), int((last - first)[some].sum())

    def _cells(self, place: Place) -> int:
        return self._spans(place)[2]

    def _compute(self, place: Place) -> tuple[slice, Any]:
        """Write what a block gives; what keys of a span have received with it, of its group of heads."""
        problem = self.problem
        first, last, _ = self._spans(place)
        tiles = [range(s, min(s + self.key_step, last)) for s in range(first, last, self.key_step)]
        tiles = [part.s for part in parts.meeting(self.asked, place, tiles) if part.t]
        b, h = (slice(part.start, part.stop) for part in place[:2])
        at = b, h, slice(place.t.start - self.rows.start, place.t.stop - self.rows.start)
        merged = parts.Sum(self.asked, place.b, place.h, len(place.t), problem.v.shape[-1])
        for s in tiles:
            merged.add(slice(0, len(place.t)), parts.forward(self._block(place, s)))
        lse = merged.lse
        self.arrays["output"][at], self.arrays["lse"][at] = merged.output, lse
        del merged
        entropy = np.zeros(lse.shape, problem.accumulate)
        heaviest = np.zeros((*lse.shape, 0), np.int64), np.zeros((*lse.shape, 0), problem.accumulate)
        received = self.received[:, first:last].copy()
        for s in tiles:
            block = self._block(place, s)
            some, more = parts.statistics(block, lse)
            received[:, s.start - first : s.stop - first] += some[0]
            entropy += more
            if self.top:
                heaviest = parts.heaviest([heaviest, parts.top(block, lse, self.top)], self.top)
        self.arrays["entropy"][at] = entropy
        if self.top:
            self.arrays["indices"][at], self.arrays["weights"][at] = parts.filled(heaviest, self.top)
        if place.t.stop < self.rows.stop:
            return slice(first, last), received
        self.arrays["received"][b, h] = self.received
        self.arrays["received"][b, h, first:last] = received
        return slice(None), 0

    def _note(self) -> None:
        done, span, received = self.last
        self.received[:, span] = received
        self.last = done, slice(0), 0

    def _block(self, place: Place, s: range) -> Problem:
        problem, g = self.problem, place.h.start // max(len(place.h), 1)
        b, h, t = (slice(part.start, part.stop) for part in place[:3])
        keys = b, slice(g, g + 1), slice(s.start, s.stop)
        return parts.block(self.asked, problem.q[b, h, t], problem.k[keys], problem.v[keys], place._replace(s=s))

    def _shape(self, name: str) -> tuple[int, ...]:
        """With the leading axes of the caller."""
        return *self.problem.outer, *self.shapes[name][0][2:]

    def _array(self, name: str, *, new: bool) -> Any:
        path, final = _part(self.folder, name), self.folder / f"{name}.npy"
        shape, dtype = self._shape(name), self.shapes[name][1]
        try:
            if not new and not path.exists() and final.exists():
                # The run was stopped when it was done, while its files took their names.
                final.replace(path)
            opened = np.lib.format.open_memmap(path, "w+" if new else "r+", dtype, None if not new else shape)
        except (OSError, ValueError) as error:
            raise FileError(f"cannot {'write' if new else 'go on with'} {path}: {error}") from None
        if opened.shape != shape or opened.dtype != dtype:
            raise FileError(f"{path} is of another run: say --overwrite (overwrite=True)")
        return opened.reshape(self.shapes[name][0])

    def _save(self) -> None:
        for array in self.arrays.values():
            array.flush()
        self._note()
        with replaced(self.state) as file:
            np.savez(file, done=self.last[0], received=self.received, identity=self.identity)
        self.saved = time.monotonic()

    def _restore(self) -> None:
        try:
            with np.load(io.BytesIO(self.state.read_bytes()), allow_pickle=False) as held:
                found = {name: held[name] for name in ("done", "received", "identity")}
        except (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile):
            raise FileError(f"{self.state} does not describe a run: say --overwrite") from None
        if str(found["identity"]) != self.identity or found["received"].shape != self.received.shape:
            raise FileError(f"{self.folder} is of a run of other arrays or options: repeat its command, or --overwrite")
        self.last, self.received = (int(found["done"]), slice(0), 0), found["received"].astype(np.float64)


def _part(folder: Path, name: str) -> Path:
    """An array while it is written."""
    return folder / f"{name}.npy.part"


def mapped(path: Path) -> np.ndarray:
    """The array of an .npy file, in the memory of the file.  Raises FileError."""
    try:
        with path.open("rb") as file:
            magic = file.read(len(_MAGIC))
        if magic == _MAGIC:
            return np.lib.format.open_memmap(path, mode="r")
        why = "it is an .npz archive" if magic.startswith(b"PK") else "it is no .npy file"
    except OSError as error:
        why = error.strerror or str(error)
    except ValueError as error:
        why = str(error)
    raise FileError(f"cannot read {path}: {why}; give an .npy file of one array, as numpy.save writes it")


def identity(problem: Problem, rows: range, top: int) -> str:
    """What makes a run this run and no other: every number that goes into it."""
    digest = hashlib.blake2b(digest_size=16)
    options = [problem.score, problem.mask, problem.bias, problem.softcap, problem.sinks]
    for value in (problem.shape, rows, top, problem.q, problem.k, problem.v, *options):
        _digest(value, digest)
    return digest.hexdigest()


def _digest(value: Any, into: Any) -> None:
    if isinstance(value, np.ndarray):
        into.update(repr((value.shape, str(value.dtype))).encode())
        # Some at a time: what is mapped stays where it is.
        rows = value.reshape(-1, value.shape[-1]) if value.ndim else value[None]
        step = (1 << 22) // max(rows[:1].nbytes, 1) or 1
        for start in range(0, len(rows), step):
            into.update(rows[start : start + step].tobytes())
    elif is_dataclass(value) and not isinstance(value, Shape):
        into.update(type(value).__name__.encode())
        for field in fields(value):
            _digest(getattr(value, field.name), into)
    elif isinstance(value, tuple):
        for part in value:
            _digest(part, into)
    elif callable(value) and hasattr(value, "__code__"):
        into.update(value.__code__.co_code + repr(value.__code__.co_consts).encode())
    else:
        into.update(repr(value).encode())
