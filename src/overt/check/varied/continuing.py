"""Calls that continue others: a sequence at once against the same in pieces, whatever keeps the keys between them.

What may keep them is tried: the object itself, any item of what a call returned, handed back as any argument, something
empty that the candidate fills, objects of classes of its module; numbers that may count the tokens before; any other
method.  That keys are kept at all shows in the recording: the piece that comes later has more keys than tokens.
"""

from __future__ import annotations

import linecache
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from overt.check.calls import call as calls
from overt.check.calls.call import Guess
from overt.check.findings import Findings
from overt.check.steps.definitions import same
from overt.check.text.lines import counted_at, given_at
from overt.check.text.roles import constructor_role
from overt.check.text.shapes import Path
from overt.check.varied import reordering
from overt.check.varied.asking import Caller
from overt.check.varied.beside import Made

# Where a later piece begins, of one token, and of as many as distances are told by.
_ALL, _CUT, _FEW = 5, 4, 2
_SAME = "pieces give what all at once gives"
# So many tokens that not all of them are kept.
_LONG = 20
# Room for more than all of them.
_ROOM = 16
# What the number of samples is called.
_SAMPLES = r"b$|bs|bat|n_?samp"
_LOOSE = 1e-4
# What arguments are that say how large something is.
_SIZES = ("heads", "groups", "head_dim", "model_dim")
# Plans in one request; methods that are tried.
_BATCH, _METHODS = 12, 5
# Flags of a constructor that are tried.
_FLAGS = 3
# Axes of what has one number a token.
_ALONG = {"tokens": 1, "tokens of one": 0, "positions": 0, "positions (B, T)": 1, "turns": 0, "cosines": 0, "sines": 0}
_ALONG |= {"half cosines": 0, "half sines": 0}
_ALONG |= {f"{kind} (B, T)": 1 for kind in ("cosines", "sines", "half cosines", "half sines")}
# What is turned by has a row for each position.
_TURNING = re.compile("turns|sines|cosines")


@dataclass(frozen=True, eq=False)
class _Way:
    """How a later piece gets what an earlier one left: arguments of the first call, and of the later ones."""

    first: dict[str, Any]
    later: dict[str, Any]
    # the argument that counts the tokens before
    count: str | None = None
    method: str | None = None
    flags: frozenset[str] = frozenset()


def check(caller: Caller, guess: Guess, made: Made, findings: Findings) -> None:
    """Make a call that works in pieces, where nothing is kept also with what a flag of the constructor switches on."""
    kept = Continued(caller, guess).check(findings)
    empty = _emptied(guess)
    if not kept and empty is not None and not findings.wrong:
        kept = Continued(caller, empty).pieces(findings)
    off = [name for name, was in made.numbers(caller).items() if was is False]
    for name in off[:_FLAGS] if not kept and not findings.wrong else ():
        other = made.other(caller, {name: True})
        if other is not None and Continued(other, guess).pieces(findings):
            break


def _holds(kind: str) -> bool:
    """Whether something may hold nothing, and be filled."""
    return kind == "dictionary" or kind.endswith(" of them")


def _emptied(guess: Guess) -> Guess | None:
    """The same call with nothing in lists and dictionaries that hold keys and values alone; None without such."""
    held: dict[Path, list[str]] = {}
    for path, kind in guess.kinds:
        if len(path) > 1:
            held.setdefault(path[:1], []).append(kind)
    kinds = dict(guess.kinds)
    kept = {path for path, inner in held.items()
            if _holds(kinds.get(path, "")) and all("S" in calls.axes_of(kind) for kind in inner)}  # fmt: skip
    left = tuple((path, kind) for path, kind in guess.kinds if path in kept or path[:1] not in kept)
    return replace(guess, kinds=left) if kept else None


class Continued:
    """A call that works, made in pieces."""

    def __init__(self, caller: Caller, guess: Guess) -> None:
        self.caller, self.session, self.face, self.handle = caller, caller.session, caller.face, caller.handle
        self.guess = guess.sized(T=_ALL, S=_ALL)
        self.kinds = guess.by_name
        self.axes = {name: axis for name, kind in self.kinds.items() if (axis := _axis(kind)) is not None}
        # what has a row for each position, of which the candidate takes those that it wants
        self.tables: frozenset[str] = frozenset()
        # what another sequence is, as the states of an encoder are, which is whole beside each piece
        self.memories: frozenset[str] = frozenset()
        # whether it never returned more than one array, in which nothing else comes back
        self.lone = True
        # of the keys that are seen
        self.sizes: list[dict[str, int]] | None = None

    def check(self, findings: Findings) -> bool:
        """Whether what comes later changes nothing that is promised to be causal, and ``pieces``."""
        if self.axes and not findings.wrong and not self._scored:
            self._begun(findings)
        return self.pieces(findings)

    @property
    def _scored(self) -> bool:
        """Whether it is given scores or weights."""
        return any("TS" in kind for kind in self.kinds.values() if calls.is_floats(kind))

    def pieces(self, findings: Findings) -> bool:
        """Whether keys are kept in some way; then it is told whether pieces give what all at once gives."""
        if not self.axes or self._scored:
            return False
        # Rows that are taken by the candidate are taken by nobody else, where it runs so.
        tables, memories = self._whole_tables(), self._memories()
        for some, others in dict.fromkeys(((tables, memories), (tables, frozenset()), (frozenset(), memories))):
            if some or others:
                other = Continued(self.caller, self.guess)
                other.tables, other.memories = some, others
                if other._checked(findings):
                    return True
        if self._checked(findings):
            return True
        # What has room for keys may have it in numbers of one width.
        wide = bool(self.sizes) and self.guess.dtype == "float64"
        self.guess = replace(self.guess, dtype="float32") if wide else self.guess
        return wide and self._checked(findings)

    def _checked(self, findings: Findings) -> bool:
        """Whether keys are kept in some way, which was told."""
        found = self._run([_Way({}, {}, flags=flags) for flags in self._flags()], (0, _ALL))
        ways = list(self._ways())
        wholes = {way.flags: rows for way, (rows,) in found}
        if not wholes:
            return False
        shown = self._run(ways, (0, _CUT), (_CUT, _ALL))
        tails = self._run([_Way({}, {}, flags=flags) for flags in wholes], (_CUT, _ALL))
        alone = {way.flags: rows for way, (rows,) in tails}
        kept: list[tuple[_Way, bool]] = []
        for way, (head, tail) in shown:
            whole = wholes.get(way.flags)
            axis = _differs(whole, head) if whole is not None else None
            if whole is None or axis is None or (whole.shape[axis], head.shape[axis]) != (_ALL, _CUT):
                continue
            last = whole.take([_ALL - 1], axis)
            if tail.size != last.size or (
                way.flags in alone and same(tail.reshape(-1), alone[way.flags].reshape(-1), _LOOSE)
            ):
                # It gives what it would give without what came before.
                continue
            right = same(tail.reshape(last.shape), last, _LOOSE)
            fresh = [] if right or not way.first else self._run([way], (_CUT, _ALL))
            later = [] if right or way.method is None else self._run([way], (1, _CUT), (_CUT, _ALL))
            if any(same(tail, rows[-1]) for _, rows in (*fresh, *later)):
                # What it was given is as it was, or nothing that came before tells.
                continue
            if self.tables and not right:
                # Whoever does not know where a piece begins was given the rows that it wants.
                blind = self._run([replace(way, count=None)], (0, _CUT), (_CUT, _ALL)) if way.count else ()
                if way.count is None or any(same(tail, rows[-1]) for _, rows in blind):
                    continue
            kept.append((way, right))
        passed = set(self.session.passed)
        for way, right in sorted(kept, key=lambda pair: not pair[1])[:3]:
            if self._told(way, right, findings):
                return True
            # It was no way to call it.
            self.session.passed = set(passed)
        return False

    def _whole_tables(self) -> frozenset[str]:
        """Arguments that may have rows for all positions: turns, of which nothing in the file takes some beforehand."""
        told = self.face.description
        around = "".join(linecache.getlines(told["file"] or "")).replace(told["source"].strip(), "")
        taken = rf"\b({'|'.join(map(re.escape, self.kinds))})\w*\[([^\],:]+:|:\s*\w)"
        return frozenset() if re.search(taken, around) else frozenset(
            name for name, kind in self.kinds.items() if _TURNING.search(kind) and "." not in name
        )  # fmt: skip

    def _memories(self) -> frozenset[str]:
        """Arguments that have keys of their own, beside others that have the positions of queries."""
        axes = {name: {*calls.axes_of(kind)} for name, kind in self.kinds.items() if calls.is_floats(kind)}
        keys = {a.name for a in self.face.arguments if a.role in ("k", "v")}
        held = {name for name, some in axes.items() if "S" in some and "T" not in some and "." not in name}
        return frozenset(held) if held - keys == held and any("T" in some for some in axes.values()) else frozenset()

    def _begun(self, findings: Findings) -> None:
        """Whether what is promised to see nothing that comes later is the same where that does not come.

        Where its mask was seen, or nothing was.
        """
        plain = _Way({}, {})
        told = self._ask([plain], ((0, _ALL),), {"causal": None})[0][0].get("judged", {})
        facts, held = told.get("facts", {}), [e for e in told.get("ledger", ()) if e["step"].endswith("causal")]
        if any("belong to several positions" in e["why"] for e in told.get("ledger", ())):
            # It was called in a way in which it attends to something else.
            return
        # All of it attends to one sequence, and to nothing that is cut with it, as a memory would be.
        moving = {name for name in self.axes if self.kinds[name][:6] == "tokens" or self.kinds[name] not in _ALONG}
        moving -= {a.name for a in self.face.arguments if a.role in ("k", "v")}
        known = facts.get("causal") == 0 and len(held) >= told["cores"]
        # Without a softmax no mask is looked for.
        masked = findings.judged and any(e["step"].endswith("softmax") for e in told.get("ledger", ()))
        if not self.face.declared_causal or len(moving) > 1 or (masked and not known):
            return
        (head, whole) = (self._run([plain], (0, end)) for end in (_CUT, _ALL))
        # Tokens that are chosen by chance are others each time.
        meant = head and whole and whole[0][1][0].dtype.kind == "f"
        axis = _differs(whole[0][1][0], head[0][1][0]) if meant else None
        if axis is None or same(whole[0][1][0].take(range(_CUT), axis), head[0][1][0], _LOOSE):
            return
        hides = "and hides later keys, " if known else ""
        findings.add(
            "unknown", line=facts.get("term") or facts.get("bias"),
            message=f"It promises causal attention, {hides}and yet one token more changes what earlier ones come to.",
            mend="Look for what is taken over all positions, such as a norm or mean, or counted from the last of them.",
        )  # fmt: skip

    # Ways.

    def _flags(self) -> list[frozenset[str]]:
        """What may be switched on: nothing, or all that is off."""
        off = frozenset(a.name for a in self.face.arguments if a.default is False and a.name not in self.kinds)
        return [frozenset(), off] if off else [frozenset()]

    @property
    def _items(self) -> tuple[int, ...]:
        """Parts of what is returned that may come back."""
        return () if self.lone else (1, -1)

    def _ways(self) -> Iterator[_Way]:
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
        holders = [name for name, kind in own.items() if (kind == "None" or _holds(kind)) and name not in filled]
        holders += [a.name for a in free if a.default is None]
        methods: list[str | None] = [None]
        if self.handle is not None:
            others = [m for m in self.face.description["methods"] if m != self.face.description["method"]]
            methods += others[:_METHODS]
        given, _ = calls.named(self.guess, self.face)
        # What is made of numbers alone.
        made = {name: spec for name, spec in given.items() if "by" in spec and "'array'" not in str(spec)}
        for flags, count, method in product(self._flags(), counts, methods):
            if self.handle is not None:
                yield _Way({}, {}, count, method, flags)
            for name in holders if method is None else ():
                if name == count:
                    continue
                for item in (*self._items, None, *(("cache",) if flags else ())):
                    yield _Way({}, {name: {"result": 0, "item": item}}, count, None, flags)
                makers = self.face.makers.get(name, ())
                made_of: list[dict[str, Any]] = [{"by": m["name"], "given": {}} for m in makers if m["name"][0] == "."]
                sized = self._sized(name)
                for some, item in product(sized, self._items):
                    # What is no memory of its own comes back with what was added to it.
                    yield _Way({name: some}, {name: {"result": 0, "item": item}}, count, None, flags)
                # What is asked by names may have them from the start.
                asked = {path[1]: None for path, kind in self.face.read.held.items()
                         if path[:-1] == (name,) and kind == "dictionary" and not path[1].isdigit()}  # fmt: skip
                values = [{}, *([asked] if asked else []), []]
                empties = [*made_of, *sized, *({"value": value} for value in values), {"make": True}]
                for empty in empties:
                    yield _Way({name: {**empty, "kept": name}}, {name: {**empty, "kept": name}}, count, None, flags)
            for name, spec in made.items() if method is None else ():
                kept = {**spec, "kept": name}
                yield _Way({name: kept}, {name: kept}, count, None, flags)
                for item in self._items:
                    # What is never changed comes back.
                    yield _Way({name: spec}, {name: {"result": 0, "item": item}}, count, None, flags)

    def _sized(self, name: str) -> list[dict[str, Any]]:
        """What classes and functions make of sizes for an argument: those of the keys that were seen, by their names.

        What they take beside sizes, and the candidate too, is the same.
        """
        makers = [m for m in self.face.makers.get(name, ()) if m["name"][0] != "." and m["parameters"]]
        if not makers:
            return []
        if self.sizes is None:
            told = self._ask([_Way({}, {})], ((0, _ALL),), {"causal": None, "operands": True})[0][0]
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

    def _spec(
        self, way: _Way, start: int, end: int, first: int | None, prefix: str
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

    def _run(self, ways: list[_Way], *pieces: tuple[int, int]) -> list[tuple[_Way, list[np.ndarray]]]:
        """The ways in which all pieces can be called, with the first array that each call returned."""
        found = []
        for begin in range(0, len(ways), _BATCH):
            some = ways[begin : begin + _BATCH]
            replies, out = self._ask(some, pieces, None)
            for number, way in enumerate(some):
                mine = replies[number * len(pieces) : (number + 1) * len(pieces)]
                if all(reply.get("outputs") for reply in mine):
                    self.lone = self.lone and all(reply["outputs"][0]["path"] == "" for reply in mine)
                    found.append((way, [out[reply["outputs"][0]["key"]] for reply in mine]))
        return found

    def _ask(
        self, ways: list[_Way], pieces: tuple[tuple[int, int], ...], record: dict[str, Any] | None
    ) -> tuple[list[dict[str, Any]], dict[str, np.ndarray]]:
        specs: list[dict[str, Any]] = []
        arrays: dict[str, np.ndarray] = {}
        for number, way in enumerate(ways):
            for place, (start, end) in enumerate(pieces):
                before = len(specs) - 1 if place else None
                call, mine = self._spec(way, start, end, before, f"{number}.{place} ")
                if record is None:
                    call["guess"] = True
                elif place == len(pieces) - 1:
                    call["record"] = record
                specs.append(call)
                arrays |= mine
        reply, out = self.session.ask({"op": "call", "handle": self.handle, "calls": specs}, arrays)
        return reply.get("replies", [reply] * len(specs)), out

    # What is told.

    def _told(self, way: _Way, right: bool, findings: Findings) -> bool:
        """Whether keys are kept in this way; then what came of it is told."""
        asked = {"causal": None, "operands": True}
        plain = _Way({}, {}, flags=way.flags)
        late, whole, chunk = (
            self._ask([one], pieces, asked)[0][-1].get("judged", {})
            for one, pieces in (
                (way, ((0, _CUT), (_CUT, _ALL))),
                (plain, ((0, _ALL),)),
                (way, ((0, _FEW), (_FEW, _ALL))),
            )
        )
        one, all_ = late.get("facts", {}).get("operands"), whole.get("facts", {}).get("operands")
        faults = {fault["mistake"]: fault for told in (late, chunk) for fault in told.get("faults", ())}
        top_left = faults.get("causal_top_left")
        if one is None and top_left is not None:
            # One query that sees one key alone has no weights to be known by; several have.
            one = chunk["facts"].get("operands")
        if one is None or all_ is None or len(one["k"][0]) < 2:
            if right:
                # What is kept are no keys, but what was made of them, as in linear attention.
                findings.entered("cache", _SAME)
            return right
        chunked = self._run([way], (0, _FEW), (_FEW, _ALL))
        wholes = self._run([plain], (0, _ALL))
        if "alibi_offset" in faults:
            findings.tell(faults["alibi_offset"])
        if right and chunked and wholes:
            rows, total = chunked[0][1], wholes[0][1][0]
            axis = _differs(total, rows[0])
            last = total.take(range(_FEW, _ALL), axis) if axis is not None and total.shape[axis] == _ALL else None
            whole_too = last is None or rows[1].shape != last.shape or same(rows[1], last, _LOOSE)
            if whole_too or top_left is None:
                findings.entered("cache", _SAME if whole_too else "one token at a time")
                self._slid(way, findings)
                cut = ((0, _CUT), (_CUT, _ALL))
                pieces = [self._spec(way, *some, (None, 0)[n], f"0.{n} ") for n, some in enumerate(cut)]
                reordering.check(self.caller, self.kinds, pieces, findings)
                return True
        if top_left is not None:
            line = chunk["facts"].get("mask made") or top_left["line"]
            line = line and given_at(top_left["file"], line, "causal")
            findings.add("causal_top_left", kind="mistake", line=line)
        if _turned(one, all_):
            turned = (e["line"] for told in (late, whole) for e in told["ledger"] if e["step"].endswith("rotation"))
            # The rows that are taken, where some are.
            look = rf"\b({'|'.join(self.tables)})\[" if self.tables else ""
            line, file = next(turned, None), self.face.description["file"]
            steps = self.face.description.get("steps") or ()
            if line and file and (late_at := counted_at(file, line, steps)) != counted_at(file, line):
                # Of several methods, that which goes on has lost count.
                line = late_at
            findings.add("rope_offset", kind="mistake", line=None if look else line, look=look)
        elif top_left is None and not right and not self._open(way) and self._continues(way, wholes, chunk):
            findings.add("decode_differs", certain=False)
        findings.enter([late])
        return True

    def _continues(self, way: _Way, wholes: list[tuple[_Way, list[np.ndarray]]], chunk: dict[str, Any]) -> bool:
        """Whether a later piece attends to what came before beside itself, and what comes first is then the same."""
        given = chunk.get("facts", {}).get("operands", {}).get("k", ())
        keys, heads = np.shape(given), self._run([way], (0, _CUT))
        if len(keys) != 3 or keys[1] <= _ALL - _FEW or not heads or not wholes:
            return False
        head, whole = heads[0][1][0], wholes[0][1][0]
        axis = _differs(whole, head)
        # What sees all of its piece is the same in one layer, but not what the next one makes of that.
        return axis is None or chunk["cores"] == 1 or same(whole.take(range(_CUT), axis), head, _LOOSE)

    def _slid(self, way: _Way, findings: Findings) -> None:
        """Whether a query is still turned as far from the keys that were kept, once some have been thrown away."""
        if self.face.description["backend"] == "jax":
            # Each of these calls would be compiled.
            return
        longer = Continued(self.caller, self.guess)
        longer.guess = self.guess.sized(T=_LONG, S=_LONG)
        asked, steps = {"causal": None, "operands": True}, [(n, n + 1) for n in range(_CUT, _LONG)]
        late = longer._ask([way], ((0, _CUT), *steps), asked)[0][-1].get("judged", {})
        whole = longer._ask([_Way({}, {}, flags=way.flags)], ((0, _LONG),), asked)[0][0].get("judged", {})
        one, all_ = (told.get("facts", {}).get("operands") for told in (late, whole))
        if one is None or all_ is None:
            return
        (q, k), (q_whole, k_whole) = ((np.asarray(x["q"]), np.asarray(x["k"])) for x in (one, all_))
        kept = min(k.shape[1], k_whole.shape[1]) if k.ndim == k_whole.ndim == 3 else 0
        if k.shape[1] >= _LONG or len(k) != len(k_whole) or k.shape[2:] != k_whole.shape[2:]:
            return
        q, q_whole, k, k_whole = q[:, -1:], q_whole[:, -1:], k[:, -kept:], k_whole[:, -kept:]
        # The same but for how they are turned.
        lengths = [np.linalg.norm(x, axis=-1) for x in (q, q_whole, k, k_whole)]
        alike = same(lengths[0], lengths[1], _LOOSE) and same(lengths[2], lengths[3], _LOOSE)
        if alike and not same((q * k).sum(-1), (q_whole * k_whole).sum(-1), _LOOSE):
            turned = (e["line"] for e in whole["ledger"] if e["step"].endswith("rotation"))
            findings.add(
                "rope_offset", kind="mistake", line=next(turned, None),
                message="Once keys are thrown away, a later query is turned as if it stood where they end.",
                mend="Count all tokens that came before, and not those that are kept.",
            )  # fmt: skip

    def _open(self, way: _Way) -> bool:
        """Whether there are arguments that may have to be given another way."""
        given = {*self.kinds, *way.first, *way.later, *way.flags, way.count}
        return any(a.name not in given for a in self.face.arguments)


def _axis(kind: str) -> int | None:
    """The axis of the tokens of a kind of argument."""
    axis = calls.along(kind)
    return _ALONG.get(kind) if axis is None else axis


def _differs(one: np.ndarray, two: np.ndarray) -> int | None:
    """The one axis in which two arrays have other lengths."""
    axes = [i for i, (n, m) in enumerate(zip(one.shape, two.shape, strict=False)) if n != m]
    return axes[0] if one.ndim == two.ndim and len(axes) == 1 else None


def _turned(one: dict[str, Any], whole: dict[str, Any]) -> bool:
    """Whether the last query, or its key, is as long as it is in the whole, and points elsewhere."""
    for name in "qk":
        x, y = np.asarray(one[name]), np.asarray(whole[name])
        if x.ndim != 3 or y.ndim != 3 or len(x) != len(y) or x.shape[2] != y.shape[2]:
            continue
        late, last = x[:, -1] ** 2, y[:, -1] ** 2
        if not np.allclose(late.sum(-1), last.sum(-1), rtol=1e-4) or same(x[:, -1], y[:, -1], _LOOSE):
            continue
        # Where all are as long, as what is normed is, only the pairs that are turned tell.
        half = late.shape[-1] // 2
        pairs = (
            [one[:, :half] + one[:, half : 2 * half], one[:, : 2 * half : 2] + one[:, 1 : 2 * half : 2]]
            for one in (late, last)
        )
        normed = same(late.sum(-1) / late.sum(-1).mean(), np.ones(len(late)), _LOOSE)
        if not normed or any(same(a, b, _LOOSE) for a, b in zip(*pairs, strict=True)):
            return True
    return False
