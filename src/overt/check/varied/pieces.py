"""A sequence in pieces: how each of them is called, and how a later one gets what an earlier one left.

What may keep keys is tried: the object itself, any item of what a call returned, handed back as any argument, something
empty that the candidate fills, objects of classes of its module; numbers that may count the tokens before; any other
method.
"""

from __future__ import annotations

import linecache
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from overt.check.calls import call as calls
from overt.check.calls.call import Guess
from overt.check.text.roles import constructor_role
from overt.check.varied import reordering
from overt.check.varied.asking import Caller

# Room for more than all of them.
_ROOM = 16
# What the number of samples is called.
_SAMPLES = r"b$|bs|bat|n_?samp"
# What arguments are that say how large something is.
_SIZES = ("heads", "groups", "head_dim", "model_dim")
# Plans in one request; methods that are tried.
_BATCH, _METHODS = 12, 5
# Axes of what has one number a token.
ALONG = {"tokens": 1, "tokens of one": 0, "positions": 0, "positions (B, T)": 1, "turns": 0, "cosines": 0, "sines": 0}
ALONG |= {"half cosines": 0, "half sines": 0}
ALONG |= {f"{kind} (B, T)": 1 for kind in ("cosines", "sines", "half cosines", "half sines")}
# What is turned by has a row for each position.
_TURNING = re.compile("turns|sines|cosines")


@dataclass(frozen=True, eq=False)
class Continuation:
    """How a later piece gets what an earlier one left: arguments of the first call, and of the later ones."""

    first: dict[str, Any]
    later: dict[str, Any]
    # the argument that counts the tokens before
    count: str | None = None
    method: str | None = None
    flags: frozenset[str] = frozenset()


def holds(kind: str) -> bool:
    """Whether something may hold nothing, and be filled."""
    return kind == "dictionary" or kind.endswith(" of them")


class Pieces:
    """A call that works, of a sequence that can be cut.

    tables: what has a row for each position, of which the candidate takes those that it wants.  memories: what another
    sequence is, as the states of an encoder are, which is whole beside each piece.
    """

    def __init__(
        self, caller: Caller, guess: Guess, tables: frozenset[str] = frozenset(), memories: frozenset[str] = frozenset()
    ) -> None:
        self.caller, self.face, self.handle, self.guess = caller, caller.face, caller.handle, guess
        self.kinds = guess.by_name
        self.axes = {name: axis for name, kind in self.kinds.items() if (axis := _axis(kind)) is not None}
        self.tables, self.memories = tables, memories
        # whether it never returned more than one array, in which nothing else comes back
        self.lone = True
        # of the keys that are seen
        self.sizes: list[dict[str, int]] | None = None

    def whole_tables(self) -> frozenset[str]:
        """Arguments that may have rows for all positions: turns, of which nothing in the file takes some beforehand."""
        told = self.face.description
        around = "".join(linecache.getlines(told["file"] or "")).replace(told["source"].strip(), "")
        taken = rf"\b({'|'.join(map(re.escape, self.kinds))})\w*\[([^\],:]+:|:\s*\w)"
        return frozenset() if re.search(taken, around) else frozenset(
            name for name, kind in self.kinds.items() if _TURNING.search(kind) and "." not in name
        )  # fmt: skip

    def other_sequences(self) -> frozenset[str]:
        """Arguments that have keys of their own, beside others that have the positions of queries."""
        axes = {name: {*calls.axes_of(kind)} for name, kind in self.kinds.items() if calls.is_floats(kind)}
        keys = {a.name for a in self.face.arguments if a.role in ("k", "v")}
        held = {name for name, some in axes.items() if "S" in some and "T" not in some and "." not in name}
        return frozenset(held) if held - keys == held and any("T" in some for some in axes.values()) else frozenset()

    # Ways.

    def flags(self) -> list[frozenset[str]]:
        """What may be switched on: nothing, or all that is off."""
        off = frozenset(a.name for a in self.face.arguments if a.default is False and a.name not in self.kinds)
        return [frozenset(), off] if off else [frozenset()]

    @property
    def _items(self) -> tuple[int, ...]:
        """Parts of what is returned that may come back."""
        return () if self.lone else (1, -1)

    def ways(self) -> Iterator[Continuation]:
        n = self.guess.lengths
        # What lies in others comes with them.
        own = {name: kind for name, kind in self.kinds.items() if "." not in name}
        # What is a number of heads, or a width, counts no tokens.
        sizes = {
            a.name for a in self.face.arguments if a.role in _SIZES and re.search("head|width", own.get(a.name, ""))
        }
        numbers = [name for name, kind in own.items()
                   if kind in calls.VALUES and type(calls.VALUES[kind](n)) is int and name not in sizes]  # fmt: skip
        free = [a for a in self.face.arguments
                if a.name not in self.kinds and not a.required and a.role not in reordering.STILL]  # fmt: skip
        numbers += [a.name for a in free if a.default is None or type(a.default) is int]
        # A number that must be given may be another one, such as that of a layer.
        must = [name for name in numbers if self.kinds.get(name)]
        counts: list[str | None] = [*must, None] if must else [None, *numbers[:4]]
        # A dictionary that holds nothing may be filled.
        filled = {path.partition(".")[0] for path in self.kinds if "." in path}
        holders = [name for name, kind in own.items() if (kind == "None" or holds(kind)) and name not in filled]
        holders += [a.name for a in free if a.default is None]
        methods: list[str | None] = [None]
        if self.handle is not None:
            others = [m for m in self.face.description["methods"] if m != self.face.description["method"]]
            methods += others[:_METHODS]
        given, _ = calls.named(self.guess, self.face)
        # What is made of numbers alone.
        made = {name: spec for name, spec in given.items() if "by" in spec and "'array'" not in str(spec)}
        for flags, count, method in product(self.flags(), counts, methods):
            if self.handle is not None:
                yield Continuation({}, {}, count, method, flags)
            for name in holders if method is None else ():
                if name == count:
                    continue
                for item in (*self._items, None, *(("cache",) if flags else ())):
                    yield Continuation({}, {name: {"result": 0, "item": item}}, count, None, flags)
                makers = self.face.makers.get(name, ())
                made_of: list[dict[str, Any]] = [{"by": m["name"], "given": {}} for m in makers if m["name"][0] == "."]
                sized = self._sized(name)
                for some, item in product(sized, self._items):
                    # What is no memory of its own comes back with what was added to it.
                    yield Continuation({name: some}, {name: {"result": 0, "item": item}}, count, None, flags)
                # What is asked by names may have them from the start.
                asked = {path[1]: None for path, kind in self.face.read.held.items()
                         if path[:-1] == (name,) and kind == "dictionary" and not path[1].isdigit()}  # fmt: skip
                values = [{}, *([asked] if asked else []), []]
                empties = [*made_of, *sized, *({"value": value} for value in values), {"make": True}]
                for empty in empties:
                    yield Continuation(
                        {name: {**empty, "kept": name}}, {name: {**empty, "kept": name}}, count, None, flags
                    )
            for name, spec in made.items() if method is None else ():
                kept = {**spec, "kept": name}
                yield Continuation({name: kept}, {name: kept}, count, None, flags)
                for item in self._items:
                    # What is never changed comes back.
                    yield Continuation({name: spec}, {name: {"result": 0, "item": item}}, count, None, flags)

    def _sized(self, name: str) -> list[dict[str, Any]]:
        """What classes and functions make of sizes for an argument: those of the keys that were seen, by their names.

        What they take beside sizes, and the candidate too, is the same.
        """
        makers = [m for m in self.face.makers.get(name, ()) if m["name"][0] != "." and m["parameters"]]
        if not makers:
            return []
        if self.sizes is None:
            told = self.ask([Continuation({}, {})], ((0, self.guess.lengths.T),), {"causal": None, "operands": True})[
                0
            ][0]
            keys = np.asarray(told.get("judged", {}).get("facts", {}).get("operands", {}).get("k", 0.0))
            samples = self.guess.lengths.B if any("B" in kind for kind in self.kinds.values()) else 1
            self.sizes = []
            if keys.ndim == 3 and len(keys) % samples == 0:
                # Those of several queries may be kept once.
                several, width = len(keys) // samples, keys.shape[2]
                once = len(np.unique(keys[:several], axis=0))
                for n in dict.fromkeys((once, several)):
                    one = {"batch": samples, "heads": n, "groups": n, "head_dim": width, "model_dim": n * width}
                    self.sizes.append(one)
        found = []
        for m, sizes in product(makers, self.sizes):
            needed = [row["name"] for row in m["parameters"] if row["required"]]
            roles = {one: "batch" if re.match(_SAMPLES, one, re.I) else constructor_role(one) for one in needed}
            given: dict[str, Any] = {one: {"value": sizes.get(role or "", _ROOM)} for one, role in roles.items()}
            given |= {one: {"argument": one} for one in needed if self.kinds.get(one, "None") not in calls.VALUES}
            found.append({"by": m["name"], "given": given})
        return found

    # Calls.

    def _draws(self, maker: str) -> bool:
        """Whether what a function or a class of the module makes is random."""
        made = (m["source"] for some in self.face.makers.values() for m in some if m["name"] == maker)
        return any(re.search(r"rand|normal|uniform|rng\b", source) for source in made)

    def spec(
        self, way: Continuation, start: int, end: int, first: int | None, prefix: str
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """One call for the tokens from start to end; first: the number of the call that came before."""
        once, whole = calls.named(self.guess, self.face)
        part = self.guess.sized(T=end - start, S=end)
        kwargs, arrays = calls.named(part, self.face, prefix)
        # What is no sequence is the same in all pieces.
        arrays |= {prefix + name: x for name, x in whole.items() if arrays[prefix + name].shape == x.shape}
        # A window is as long in all pieces, and so is one that a configuration has; what is drawn is drawn alike.
        kwargs |= {
            name: spec for name, spec in once.items()
            if self.kinds[name] == "side" or ("by" in spec and self._draws(spec["by"]))
            or ({"dict", "config"} & spec.keys() and "'array'" not in str(spec))
        }  # fmt: skip
        for name, axis in self.axes.items():
            some = whole[name].take(range(start, end), axis)
            arrays[prefix + name] = whole[name] if name in self.tables | self.memories else some
        for name, kind in self.kinds.items():
            # A mask has the rows of the piece, and the keys until its end.
            axes = calls.axes_of(kind) if calls.is_mask(kind) and name in whole else ()
            piece = {"T": slice(start, end), "S": slice(None) if self.memories else slice(0, end)}
            if axes:
                arrays[prefix + name] = whole[name][tuple(piece.get(axis, slice(None)) for axis in axes)]
        given = way.first if first is None else way.later
        for name, spec in given.items():
            made = dict(spec)
            if "result" in made:
                made["result"] = first
            if "given" in made:
                made["given"] = {
                    one: kwargs[value["argument"]] if "argument" in value else value
                    for one, value in made["given"].items()
                }
            if "kept" in made:
                made["kept"] = f"{made['kept']} {prefix.partition('.')[0]}"
            kwargs[name] = made
        kwargs |= {name: {"value": True} for name in way.flags}
        if way.count is not None:
            kwargs[way.count] = {"value": start}
        placed = [a.name for a in self.face.arguments if a.kind == "position" and a.name in kwargs]
        args = [kwargs.pop(name) for name in placed]
        call = self.caller.spec(args, kwargs, dtype=self.guess.dtype, fresh=first is None)
        if first is not None and way.method is not None:
            # Its arguments may have other names.
            call |= {"method": way.method, "args": [*args, *kwargs.values()], "kwargs": {}}
        return call, arrays

    def run(self, ways: list[Continuation], *pieces: tuple[int, int]) -> list[tuple[Continuation, list[np.ndarray]]]:
        """The ways in which all pieces can be called, with the first array that each call returned."""
        found = []
        for begin in range(0, len(ways), _BATCH):
            some = ways[begin : begin + _BATCH]
            replies, out = self.ask(some, pieces, None)
            for number, way in enumerate(some):
                mine = replies[number * len(pieces) : (number + 1) * len(pieces)]
                if all(reply.get("outputs") for reply in mine):
                    self.lone = self.lone and all(reply["outputs"][0]["path"] == "" for reply in mine)
                    found.append((way, [out[reply["outputs"][0]["key"]] for reply in mine]))
        return found

    def ask(
        self, ways: list[Continuation], pieces: tuple[tuple[int, int], ...], record: dict[str, Any] | None
    ) -> tuple[list[dict[str, Any]], dict[str, np.ndarray]]:
        specs: list[dict[str, Any]] = []
        arrays: dict[str, np.ndarray] = {}
        for number, way in enumerate(ways):
            for place, (start, end) in enumerate(pieces):
                before = len(specs) - 1 if place else None
                call, mine = self.spec(way, start, end, before, f"{number}.{place} ")
                if record is None:
                    call["guess"] = True
                elif place == len(pieces) - 1:
                    call["record"] = record
                specs.append(call)
                arrays |= mine
        reply, out = self.caller.session.ask({"op": "call", "handle": self.handle, "calls": specs}, arrays)
        return reply.get("replies", [reply] * len(specs)), out


def _axis(kind: str) -> int | None:
    """The axis of the tokens of a kind of argument."""
    axis = calls.along(kind)
    return ALONG.get(kind) if axis is None else axis
