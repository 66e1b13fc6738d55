"""The parts of attention by themselves: called in every way that a definition knows, and told by their numbers.

Behaviour decides: a part is what gives the numbers of its definition, or of a known mistake in it, on every problem.
Names and documentation only settle ties: where what comes out is right of one part and wrong of another, the part that
is meant holds, and without a hint the charitable reading does.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import combinations, islice, pairwise, permutations, product
from typing import Any, NamedTuple

import numpy as np

from overt.check.calls.call import Lengths, placed
from overt.check.findings import Findings
from overt.check.mistakes import MISTAKES
from overt.check.parts import heads, masks, positions
from overt.check.parts.part import Given, Part, Reading
from overt.check.process.session import Here, Session
from overt.check.report import Kind
from overt.check.steps.definitions import same
from overt.check.text.edits import Edit
from overt.check.text.interface import Interface
from overt.check.text.roles import Argument
from overt.check.text.syntax import parsed
from overt.check.varied import slips
from overt.check.varied.asking import Caller

_SCORES = ("TS", "BTS", "BHTS")
_X = (*(f"x={axes}" for axes in ("BHTD", "BTHD", "BTD", "HTD", "THD", "TD")), "q=BHTD k=BHTD", "q=BTHD k=BTHD")
_TABLES = tuple(f"{form} {axes}" for form in ("half", "halves", "repeated") for axes in ("TD", "1TD", "11TD", "1T1D"))
_TURNS = ("turns TD", "turns 1T1D", "real turns TD", *(f"angles {form} TD" for form in ("half", "halves", "repeated")))
_AT = ("", " positions=points", " positions=points of each", " offset=start", " length=length")
_LSE = (("BHTD", "BHT", "BHT"), ("BHTD", "BHT1", "BHT1"), ("BTHD", "BHT", "BHT"), ("BTHD", "BTH", "BTH"),
        ("BTHD", "BTH1", "BHT"), ("TD", "T", "T"))  # fmt: skip

PARTS = (
    Part("softmax", ("softmax", "softargmax"), (
        tuple(f"scores={axes}{more}" for axes in _SCORES for more in ("", " axis=axis")),
        ("scores=S", "scores=S axis=axis"),
    ), masks.plain, "Vaswani et al. 2017, equation 1"),
    Part("softmax over segments", ("softmax", "segment", "scatter", "edge"), (
        tuple(f"scores={axes} ends=ends{more}" for axes in ("T", "TH") for more in (" length=nodes", "")),
    ), masks.segments, "Veličković et al. 2018, equation 3"),
    Part("masked softmax", ("softmax", "mask"), ((
        *(f"scores={axes} mask={how} {axes}" for axes in _SCORES for how in ("keep", "0/1", "added")),
        *(f"scores={axes} mask={how} TS" for axes in _SCORES[1:] for how in ("keep", "0/1", "added")),
        *(f"scores={axes} lengths=lengths" for axes in _SCORES[1:]),
    ),), masks.masked, "Vaswani et al. 2017, 3.2.3"),
    Part("mask", ("mask", "causal", "triang", "window", "visible", "allowed", "subsequent", "future"), (
        ("length=length key_length=keys window=window", "length=length window=window"),
        ("length=length key_length=keys",),
        ("length=length", "x=BTW", "x=TD", "x=tokens"),
    ), masks.sized, "Vaswani et al. 2017, 3.2.3"),
    Part("padding mask", ("mask", "pad", "valid", "length"), ((
        "tokens=tokens", "tokens=real", "tokens=tokens pad=zero", "tokens=tokens length=length",
        "tokens=real length=length", "lengths=lengths", "lengths=lengths length=length",
    ),), masks.padded, "Vaswani et al. 2017, 3.2.3"),
    Part("sinusoidal positions", ("sinus", "posit", "encod", "timing", "timestep"), (
        ("length=length width=width", *(f"positions={at} width=width" for at in ("points", "points of each", "point"))),
        ("x=TBW", "x=BTW", "x=TW", "length=length", "positions=points", "positions=points of each", "tokens=tokens"),
    ), positions.encodings, "Vaswani et al. 2017, 3.5"),
    Part("embedding", ("embed",), (
        ("tokens=tokens", "tokens=tokens table=table"),
    ), positions.embeddings, "Vaswani et al. 2017, 3.4"),
    Part("rotation", ("rope", "rotary", "rotat"), (
        tuple(x + at for x in _X for at in _AT),
        tuple(f"{x} cos=cos {form} sin=sin {form}" for x in _X for form in _TABLES),
        tuple(f"{x} turns={form}" for x in _X for form in _TURNS),
    ), positions.rotations, "Su et al. 2021, equation 34"),
    Part("angles of rotations", ("rope", "rotary", "freq", "angle"), ((
        "width=width length=length", "width=width positions=points", "length=length", "positions=points",
        "positions=points of each", "x=BHTD length=length", "x=BHTD positions=points of each",
    ),), positions.angles, "Su et al. 2021, equation 34"),
    Part("slopes of ALiBi", ("alibi", "slope"), (("heads=heads",),), positions.slopes, "Press et al. 2022, section 3"),
    Part("bias of ALiBi", ("alibi", "linear bias"), ((
        *(f"{of}{lengths}" for of in ("heads=heads ", "slopes=slopes ", "")
          for lengths in ("length=length key_length=keys", "length=length")),
        "mask=ones heads=heads",
    ),), positions.linear, "Press et al. 2022, section 3"),
    Part("relative bias", ("relative", "t5", "bias"), (
        ("length=far key_length=farther", "length=far", ""),
    ), positions.relative, "Raffel et al. 2020, 2.1"),
    Part("buckets of distances", ("bucket",), (("distance=distances",),), positions.buckets, "Raffel et al. 2020, 2.1"),
    Part("heads split", ("split", "head", "separate"), (
        ("x=BTW heads=heads", "x=BTW width=width", "x=BTW heads=heads width=width", "x=TW heads=heads", "x=BTW"),
    ), heads.split, "Vaswani et al. 2017, 3.2.2"),
    Part("heads merged", ("merge", "combine", "concat", "join", "head"), (
        ("x=BHTD", "x=BTHD", "x=BHTD heads=heads", "x=XTD heads=heads", "x=XTD batch=batch"),
    ), heads.merge, "Vaswani et al. 2017, 3.2.2"),
    Part("key heads repeated", ("repeat", "expand", "group", "kv"), (
        ("x=BHTD repeats=repeats", "x=BHTD heads=more heads"),
    ), heads.repeat, "Ainslie et al. 2023, 2.1"),
    Part("packed projection", ("qkv", "pack", "split", "unpack"), (
        ("qkv=BTP heads=heads", "qkv=BTP"),
    ), heads.unpack, "Vaswani et al. 2017, 3.2.2"),
    Part("partial results merged", ("merge", "combine", "lse", "partial"), (
        tuple(f"o1={o} {more}" for o, a, b in _LSE for more in (f"l1={a} o2={o} l2={b}", f"o2={o} l1={a} l2={b}")),
    ), heads.partial, "Dao et al. 2022, 3.1"),
)  # fmt: skip

# Two sizes, no two axes of which are alike; then the first with large numbers, and with rows far from each other.
_SIZES = (Lengths(2, 4, 7, 9, 8, 32), Lengths(3, 12, 8, 10, 4, 48))
_PROBLEMS = ((0, ""), (1, ""), (0, "loud"), (0, "apart"))
_START = 3
_NUMBERS: dict[str, Callable[[Lengths], float]] = {
    "length": lambda n: n.T, "keys": lambda n: n.S, "far": lambda n: 70 + n.T, "farther": lambda n: 140 + n.S,
    "width": lambda n: n.D, "all": lambda n: n.W, "count": lambda n: 200 + n.H, "heads": lambda n: n.H,
    "more heads": lambda n: 3 * n.H, "repeats": lambda n: 3, "batch": lambda n: n.B, "window": lambda n: n.T // 2,
    "start": lambda n: _START, "point": lambda n: n.T // 2, "nodes": lambda n: 3, "zero": lambda n: 0,
    "axis": lambda n: -1,
}  # fmt: skip
_ARRAYS: dict[str, Callable[[Lengths, np.random.Generator], np.ndarray]] = {
    "points": lambda n, r: np.arange(n.T) + _START,
    "points of each": lambda n, r: np.tile(np.arange(n.T) + _START, (n.B, 1)),
    "distances": lambda n, r: np.arange(140 + n.S) - 70 - np.arange(n.T)[:, None],
    "lengths": lambda n, r: n.T - 1 - np.arange(n.B),
    "real": lambda n, r: (np.arange(n.T) < n.T - 1 - np.arange(n.B)[:, None]).astype(int),
    "tokens": lambda n, r: r.permutation(n.B * n.T).reshape(n.B, n.T) % 5 + 1,
    "table": lambda n, r: r.normal(size=(200 + n.H, n.W)),
    "ends": lambda n, r: np.arange(n.T) * 2 % 3,
    "ones": lambda n, r: np.ones((n.B, n.S), int),
    "slopes": lambda n, r: 2.0 ** -np.arange(1, n.H + 1),
}
# Roles that are numbers, and kinds of a constructor's.
_MADE = ("all", "count", "width", "heads")


@lru_cache(maxsize=512)
def made(kind: str, n: Lengths, how: str, seed: int) -> np.ndarray:
    """A value of a kind: a number, an array of floats by its axes, or another array."""
    random = np.random.default_rng(seed)
    if kind in _NUMBERS:
        return np.asarray(_NUMBERS[kind](n))
    if kind in _ARRAYS:
        found = _ARRAYS[kind](n, random)
        # What ends early is padded.
        return np.where(_ARRAYS["real"](n, random) > 0, found, 0) if kind == "tokens" else found
    word, _, axes = kind.rpartition(" ")
    shape = tuple(n.axis(letter) for letter in axes)
    if not word:
        shift = {"loud": 900.0}.get(how, 0.0)
        if how == "apart" and len(shape) > 1:
            shift = np.where(np.arange(shape[-2]) > 0, -800.0, 0.0)[:, None]  # type: ignore[assignment]
        return random.normal(size=shape) + shift
    if word in ("keep", "0/1", "added"):
        keep = np.random.default_rng(1).random(shape) < 0.6
        keep[..., 0], keep[..., -2:] = True, False
        keep[..., -2] = True
        keep[..., 0, -1] = False
        return keep if word == "keep" else keep.astype(float) if word == "0/1" else np.where(keep, 0.0, -1e9)
    form, _, spread = word.partition(" ")
    spread = spread or form
    angle = np.arange(n.T)[:, None] * 10_000.0 ** (-np.arange(0, n.D, 2) / n.D)
    wide = {"halves": np.concatenate([angle, angle], -1), "repeated": np.repeat(angle, 2, -1)}.get(spread, angle)
    if "turns" in word:
        wide = np.exp(1j * angle)
    found = {"cos": np.cos, "sin": np.sin}.get(form, np.asarray)(wide)
    found = found.reshape([n.T if letter == "T" else 1 if letter == "1" else found.shape[-1] for letter in axes])
    return np.stack([found.real, found.imag], -1) if form == "real" else found


# Calls after which no other instance is made.
_CALLS = 3000


class _Call(NamedTuple):
    """Arguments with their kinds, and which role of a part each of them has."""

    kinds: tuple[tuple[str, str], ...]
    roles: tuple[tuple[str, str], ...]


@dataclass(frozen=True, eq=False)
class _Found:
    """A reading that gave the candidate's numbers in every problem."""

    part: Part
    call: _Call
    reading: Reading
    meant: bool
    agreed: int
    outputs: tuple[np.ndarray, ...]

    @property
    def cost(self) -> tuple[Any, ...]:
        """What holds first: what is meant, then what names agree with, then what is right."""
        names = self.reading.mistakes
        rank = sum(MISTAKES[name].rank for name, _ in names)
        return (
            not self.meant,
            -self.agreed,
            sum(map(_bad, self.reading.kinds)),
            len(names),
            rank,
        )


class Parts:
    """One candidate, as a part of attention."""

    def __init__(self, session: Session | Here, face: Interface, maker: Interface | None) -> None:
        self.session, self.face, self.maker = session, face, maker
        rows = [*face.arguments, *(maker.arguments if maker is not None else [])]
        self.numbers = _numbers(face, rows)
        self.text = face.name.lower() + " " + face.prose
        self.named = " ".join([self.text, *(row.name.lower() for row in rows)])
        # right readings of a meant part that nearly fit: their part, and what was seen and expected
        self.near: list[tuple[Part, np.ndarray, np.ndarray]] = []
        # calls of parts, which came back, how the instance was made, and how many numbers that gave
        self.ran: list[tuple[Part, _Call, tuple[tuple[str, str], ...], int]] = []
        self.made: tuple[tuple[str, str], ...] = ()
        self.changed: set[str] = set()
        self.asked = 0

    def check(self, findings: Findings) -> bool:
        """Enter what part it is and what is wrong with it; False where it is none that is known."""
        best: _Found | None = None
        for handles, arrays in islice(self._instances(), 16):
            for found in self._explained(handles, arrays):
                if best is None or found.cost < best.cost:
                    best = found
            if self.asked > _CALLS or (best is not None and not best.reading.mistakes):
                break
        if best is None or (best.reading.vague and not best.reading.mistakes and self.mended(findings)):
            return best is not None
        for name, kind in best.reading.mistakes:
            seen, meant = best.reading.pairs[0]
            example = None if same(seen, meant) else differing(seen, meant)
            findings.add(name, kind=kind, certain=best.meant, example=example)
        if self.changed:
            findings.add("inplace")
        findings.convention |= {"kind": best.part.name, **dict(best.reading.told)}
        called = f"{best.part.source}, called with {', '.join(k for _, k in best.call.kinds)}"
        failed = next((name for name, kind in best.reading.mistakes if _bad(kind)), None)
        findings.entered(best.part.name, called, failed=failed)
        return True

    def nearest(self, findings: Findings) -> bool:
        """Enter what it is meant to be, where it was called and gave other numbers than the definition."""
        if not self.near:
            return False
        part, seen, meant = min(
            self.near, key=lambda one: float(np.mean(~np.isclose(one[1], one[2], rtol=1e-3, atol=1e-5)))
        )
        findings.add(
            "unknown", certain=False, example=differing(seen, meant),
            message=f"Read as {part.name} ({part.source}), it gives wrong numbers, and no known mistake gives them.",
        )  # fmt: skip
        findings.entered(part.name, part.source, failed="unknown")
        return True

    def mended(self, findings: Findings) -> bool:
        """Enter what it is meant to be, where one change of its text gives the numbers of the definition."""
        edit, part = self._slip() or (None, None)
        if edit is None or part is None:
            return False
        findings.add(
            "unknown", kind="unknown", certain=False, line=edit.line, look="(?!)",
            message=f"Read as {part.name} ({part.source}), it gives wrong numbers, and right ones with "
            f"{edit.text} in the place of {edit.was}.", mend=f"Write {edit.text} for {edit.was}.",
        )  # fmt: skip
        findings.entered(part.name, part.source, failed="unknown")
        return True

    def _slip(self) -> tuple[Edit, Part] | None:
        """A change of its text that gives the numbers of a definition."""
        ran = {(part.name, call.kinds): call for part, call, _, _ in self.ran}
        some = [part for part in PARTS if any(part.name == one for one, _ in ran)]
        # Where nothing says what it is, it may be any.
        meant = [part for part in some if any(word in self.named for word in part.words)] or some
        # The smallest instance, which is the quickest; and the one that names ask for.
        makings = dict.fromkeys(one[2] for one in (*sorted(self.ran, key=lambda one: one[-1])[:1], *self.ran[:1]))
        # Of what runs in more calls while changes are tried, nothing more is known.
        self.ran = []
        calls = {part.name: [[call for (one, _), call in ran.items() if one == part.name]] for part in meant}

        def fits(making: tuple[tuple[str, str], ...]) -> Part | None:
            tries = (one for pair in self._instances([making]) for one in self._explained(*pair, meant, calls))
            right = (one for one in tries if not one.reading.vague and not any(map(_bad, one.reading.kinds)))
            return next((one.part for one in right), None)

        slips_of = (slips.mended(self.session, self.face, partial(fits, making)) for making in makings if meant)
        return next(filter(None, slips_of), None)

    def _instances(
        self, constructors: Iterable[tuple[tuple[str, str], ...]] | None = None
    ) -> Iterator[tuple[tuple[int | None, ...], list[dict[str, np.ndarray]]]]:
        """Handles for both sizes and the arrays that they hold; None for a function."""
        if self.face.description["kind"] == "function":
            yield (None, None), [{}, {}]
            return
        for kinds in constructors or self._constructors():
            self.made = kinds
            handles, arrays = [], []
            for n in _SIZES if self.maker is not None else _SIZES[:1]:
                kwargs = {name: {"value": _NUMBERS[kind](n)} for name, kind in kinds}
                reply, out = self._build(kwargs)
                if "error" in reply and reply["error"]["type"] == "DiedError":
                    return
                if "error" in reply:
                    break
                if sum(a.ndim == 2 for a in out.values()) > 3:
                    # It is a whole layer, whatever numbers it is given.
                    return
                handles.append(reply["handle"])
                arrays.append(out)
            if handles:
                yield tuple(handles), arrays

    def _build(self, kwargs: dict[str, Any]) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        # Numbers that somebody computed stay; parameters that start as zeros tell nothing.
        for seed in (None, 1):
            reply, out = self.session.ask({"op": "build", "kwargs": kwargs, "seed": seed, "numbers": True})
            if "error" in reply or all(np.ptp(a) > 0 for a in out.values() if a.size > 1):
                break
        return reply, out

    def _constructors(self) -> Iterator[tuple[tuple[str, str], ...]]:
        if self.maker is None:
            yield ()
            return
        names = [a.name for a in self.maker.arguments if a.required]
        roles = {"model_dim": "all", "head_dim": "width", "vocab": "count", "length": "count", "heads": "heads"}
        told = tuple(roles.get(a.role or "", "all") for a in self.maker.arguments if a.required)
        if len(names) <= 4:
            for kinds in dict.fromkeys([told, *(product(_MADE, repeat=len(names)) if len(names) < 4 else [])]):
                yield tuple(zip(names, kinds, strict=True))

    def _explained(
        self,
        handles: Sequence[int | None],
        arrays: list[dict[str, np.ndarray]],
        parts: Sequence[Part] = PARTS,
        calls: Mapping[str, list[list[_Call]]] | None = None,
    ) -> Iterator[_Found]:
        """Readings that hold in all problems; of all parts, called in all ways, or of some called in some."""
        calls = calls or {part.name: [[c for way in group for c in self._calls(way)] for group in part.takes]
                          for part in parts}  # fmt: skip
        first = self._ask(handles[0], list({c.kinds for groups in calls.values() for g in groups for c in g}), 0)
        later: dict[tuple[Any, int], list[np.ndarray] | None] = {}
        for part in parts:
            meant = any(word in self.text for word in part.words)
            for group in calls[part.name]:
                told = False
                for call in group:
                    outs = first.get(call.kinds)
                    if outs is None:
                        continue
                    self.ran.append((part, call, self.made, sum(out.size for out in outs)))
                    held = self._held(part, call, arrays[0], 0, outs, meant)
                    for number in range(1, len(_PROBLEMS)):
                        size = _PROBLEMS[number][0]
                        if not held or size >= len(handles):
                            continue
                        if (call.kinds, number) not in later:
                            later[call.kinds, number] = self._ask(handles[size], [call.kinds], number).get(call.kinds)
                        more = later[call.kinds, number]
                        if more is not None:
                            again = self._held(part, call, arrays[size], number, more, meant)
                            held = {key: reading for key, reading in held.items() if key in again}
                    for reading in held.values():
                        told = True
                        yield _Found(part, call, reading, meant, self._agreed(call), tuple(outs))
                if told:
                    break

    def _held(
        self, part: Part, call: _Call, arrays: dict[str, np.ndarray], problem: int, outs: list[np.ndarray], meant: bool
    ) -> dict[Any, Reading]:
        values, n = self._values(call.kinds, problem)
        kinds = dict(call.kinds)
        given = Given(
            self.face, n, {role: values[name] for name, role in call.roles},
            {role: kinds[name] for name, role in call.roles}, arrays, self.numbers,
        )  # fmt: skip
        held: dict[Any, Reading] = {}
        try:
            with np.errstate(all="ignore"):
                for reading in part.read(given, outs):
                    if (meant or not reading.vague) and reading.key not in held:
                        if reading.fits:
                            held[reading.key] = reading
                        elif meant and problem == 0 and not reading.mistakes:
                            self._nearly(part, reading)
        except (ValueError, IndexError, TypeError, ZeroDivisionError):
            # It returned what the part never does.
            return held
        return held

    def _nearly(self, part: Part, reading: Reading) -> None:
        seen, meant = (np.asarray(a, float) for a in reading.pairs[0])
        if not any(word in self.face.promise for word in part.words):
            return
        if seen.shape == meant.shape and np.mean(np.isclose(seen, meant, rtol=1e-3, atol=1e-5)) > 0.5:
            self.near.append((part, seen, meant))

    def _agreed(self, call: _Call) -> int:
        """How many arguments have the role that their names say."""
        told = {a.name: a.role for a in self.face.arguments if len(a.name) > 1}
        return sum(told.get(name) == role for name, role in call.roles)

    def _calls(self, way: str) -> Iterator[_Call]:
        """The ways to give what a part takes to the candidate's arguments."""
        items = [tuple(item.split("=")) for item in _items(way)]
        needed = [a for a in self.face.arguments if a.required]
        if len(items) < len(needed):
            return
        spare = [a for a in self.face.arguments if not a.required]
        roles = {role for role, _ in items}
        spare.sort(key=lambda a: a.role not in roles)
        for more in islice(combinations(spare, len(items) - len(needed)), 3):
            taken = [a for a in self.face.arguments if a in needed or a in more]
            orders: Iterator[tuple[Any, ...]] = permutations(items)
            if sum(kind not in _NUMBERS for _, kind in items) > 1 and len(items) > 2:
                named = sorted(
                    items, key=lambda i: next((n for n, a in enumerate(taken) if a.role == i[0]), len(taken))
                )
                orders = iter(dict.fromkeys([tuple(items), tuple(named), (*items[1:], items[0])]))
            for order in orders:
                pairs = list(zip(taken, order, strict=True))
                yield _Call(tuple((a.name, k) for a, (_, k) in pairs), tuple((a.name, r) for a, (r, _) in pairs))

    def _values(self, kinds: tuple[tuple[str, str], ...], problem: int) -> tuple[dict[str, np.ndarray], Lengths]:
        size, how = _PROBLEMS[problem]
        n = _SIZES[size]
        if size and self.face.powers_of_two:
            n = Lengths(3, 8, 6, 10, 4, 32)
        return {name: made(kind, n, how, seed) for seed, (name, kind) in enumerate(kinds)}, n

    def _ask(self, handle: int | None, calls: list[Any], problem: int) -> dict[Any, list[np.ndarray] | None]:
        """What calls return, None where they raise."""
        found: dict[Any, list[np.ndarray] | None] = {}
        caller = Caller(self.session, self.face, handle)
        self.asked += len(calls)
        for start in range(0, len(calls), 64):
            specs: list[dict[str, Any]] = []
            arrays: dict[str, np.ndarray] = {}
            for kinds in calls[start : start + 64]:
                values, _ = self._values(kinds, problem)
                given: dict[str, Any] = {}
                for number, (name, kind) in enumerate(kinds):
                    key = f"{number} {kind}"
                    given[name] = {"value": values[name].item()} if kind in _NUMBERS else {"array": key}
                    arrays |= {} if kind in _NUMBERS else {key: values[name]}
                specs.append(caller.spec(*placed(given, self.face), guess=True))
            reply, out = self.session.ask({"op": "call", "handle": handle, "calls": specs}, arrays)
            for kinds, one in zip(calls[start : start + 64], reply.get("replies", [reply] * len(specs)), strict=True):
                known = "error" not in one
                found[kinds] = [out[o["key"]] for o in one["outputs"]] or None if known else None
        return found


def _bad(kind: Kind | None) -> bool:
    """Whether what is of a kind makes numbers wrong; None is the catalogue's."""
    return kind not in ("convention", "risk")


def _items(way: str) -> list[str]:
    """role=kind, where a kind may have blanks."""
    words = way.split(" ")
    starts = [*(n for n, word in enumerate(words) if "=" in word), len(words)]
    return [" ".join(words[a:b]) for a, b in pairwise(starts)]


def _numbers(face: Interface, rows: Sequence[Argument]) -> tuple[float, ...]:
    """Numbers in the text of a candidate, and defaults of its arguments."""
    found = [a.default for a in rows if isinstance(a.default, int | float) and not isinstance(a.default, bool)]
    for text in (face.description["source"], face.description["helpers"]):
        found += [
            n.value for n in ast.walk(parsed(text)) if isinstance(n, ast.Constant) and isinstance(n.value, int | float)
        ]
    return tuple(dict.fromkeys(float(n) for n in found if not isinstance(n, bool)))


def differing(seen: np.ndarray, meant: np.ndarray) -> dict[str, str]:
    """The first cell that differs."""
    wrong = ~np.isclose(np.asarray(seen, float), np.asarray(meant, float), rtol=1e-3, atol=1e-6)
    cell = tuple(int(i) for i in np.argwhere(wrong)[0]) if wrong.any() else (0,) * np.ndim(seen)
    place = f"at {list(cell)} of {np.shape(seen)}: "
    return {
        "expected": f"{place}{np.asarray(meant, float)[cell]:.4g}",
        "actual": f"{place}{np.asarray(seen, float)[cell]:.4g}",
    }
