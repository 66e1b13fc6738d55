"""What a call is: hypotheses about each argument, the lengths of their axes, and the arrays and values of both."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import ceil, prod
from typing import Any

import numpy as np

from overt.check.calls.trees import HUNG, PARENTS, PATHS, TREES, parents, paths
from overt.check.report import brief
from overt.check.text.interface import Interface
from overt.check.text.shapes import Path

Spec = dict[str, Any]


@dataclass(frozen=True)
class Lengths:
    """The axes of one call: batch, heads, queries, keys, width of a head, width of all, key heads, another width.

    more: letters for axes that are nothing else, with their lengths.
    """

    B: int = 2
    H: int = 4
    T: int = 8
    S: int = 8
    D: int = 16
    W: int = 64
    G: int = 0
    U: int = 0
    more: tuple[tuple[str, int], ...] = ()

    def axis(self, letter: str) -> int:
        """The length of an axis; some are made of others."""
        if self.more and letter in (told := dict(self.more)):
            return told[letter]
        if letter in "BHTSDW":
            return int(getattr(self, letter))
        side = round(self.T**0.5)
        own = {
            "h": side, "w": side, "P": 3 * self.W, "r": self.D // 2, "1": 1, "2": 2, "3": 3, "N": self.B * self.T,
            "X": self.B * self.H, "E": 2 * self.D, "G": self.G or self.H, "U": self.U or 2 * self.W,
            "n": self.B * -(-self.S // PAGE), "p": PAGE, "K": (self.G or self.H) * self.D, "Y": self.S,
        }  # fmt: skip
        return own[letter]

    def shape(self, axes: Sequence[str]) -> tuple[int, ...]:
        """The lengths of axes; 0 for one that is several."""
        return tuple(self.axis(letter) if len(letter) == 1 else 0 for letter in axes)

    def resized(self, letter: str, length: int) -> Lengths:
        """With another length of an axis; the width of all is that of the heads together, where it can be."""
        if letter in "BTSGU":
            return replace(self, **{letter: length})  # type: ignore[arg-type]
        if letter in "HDW":
            H, D, W = (length if name == letter else getattr(self, name) for name in "HDW")
            return replace(self, H=H, D=W // H if letter == "W" and W % H == 0 else D, W=W if letter == "W" else H * D)
        return replace(self, more=(*((a, n) for a, n in self.more if a != letter), (letter, length)))

    def beside(self, other: Lengths) -> Lengths:
        """With the axes of another call that have letters which are nothing here."""
        here = {letter for letter, _ in self.more}
        return replace(self, more=(*self.more, *(pair for pair in other.more if pair[0] not in here)))

    def __str__(self) -> str:
        groups = f", key heads {self.G}" if self.G else ""
        more = "".join(f", {letter} {length}" for letter, length in self.more)
        return f"batch {self.B}, heads {self.H}{groups}, {self.T} queries, {self.S} keys, width {self.W}{more}"


# Lengths that are letters.
PLAIN = ("1", "2", "3")
# Keys in one page of a cache, and edges of a node.
PAGE, DEGREE = 4, 3
# Few and odd first, then what code wants that counts in blocks, windows or lanes.
LADDER = (
    Lengths(2, 3, 5, 7, 4, 12),
    Lengths(2, 3, 5, 5, 4, 12),
    Lengths(2, 4, 8, 8, 8, 32),
    Lengths(2, 4, 16, 16, 16, 64),
    Lengths(2, 4, 49, 49, 16, 64),
    Lengths(2, 8, 64, 64, 16, 128),
)
AXES = ("B", "H", "T", "S", "D", "W")
# Calls in one request, and of one search; and which of the furthest is changed, in turns.
BATCH, MOST = 24, 1200
# Characters of a call that are shown.
_SHOWN = 300


def ladder(sizes: Mapping[str, int] | None) -> Sequence[Lengths]:
    """The lengths to try, or those that somebody gave and what follows from them."""
    if sizes is None:
        return LADDER
    found = dict(sizes)
    H = found.setdefault("H", 4)
    found.setdefault("D", found["W"] // H if "W" in found else 16)
    found.setdefault("W", H * found["D"])
    found.setdefault("S", found.get("T", 8))
    return (Lengths(**found),)  # type: ignore[arg-type]


# What an argument may be: arrays of numbers by their axes, arrays of other things, values, functions, and what holds
# others.
FLOATS = (
    "BTW", "BSW", "BHTD", "BGSD", "BTHD", "BSGD", "TW", "SW", "BW", "W", "WW", "BTP", "BT3HD", "BWT", "BWhw", "BhwW",
    "TBW", "SBW", "HTD", "GSD", "THD", "SGD", "NHD", "BSD", "TD", "SD", "D", "BU", "BSU", "SBU", "TU", "SU", "WP", "PW",
    "UW", "WU", "WD", "W1", "P", "H", "HWD", "WHD", "HDW", "WGD", "GWD", "3WW", "WHT", "BHTS", "HTS", "BTS", "TS",
    "1BW", "1BU", "B1W", "3BHTD", "B3HTD", "BTH3", "TP", "T3HD", "B1SD", "BS1D", "Tr", "BHD", "BGSE",
    "BSE", "npGD", "nGpD", "H1", "U", "BThwW", "BWThw",
)  # fmt: skip


def _seen(n: Lengths, axes: Sequence[str]) -> np.ndarray:
    """Booleans: of each row about half are True, in runs that no other row has, however they are read."""
    sizes = [prod(n.axis(letter) for letter in axis if letter != " ") for axis in axes]
    # The axis of the keys is the last one but for one of samples.
    _, key = max(((axes[i][0] != "B", i) for i, size in enumerate(sizes) if size > 1), default=(True, len(sizes) - 1))
    found = np.arange(sizes[key]).reshape([-1 if i == key else 1 for i in range(len(sizes))])
    for i, (axis, size) in enumerate(zip(axes, sizes, strict=True)):
        if i != key:
            # Heads of one sample see the same.
            row = np.arange(size) // (n.H if axis == "B H" else 1) * (1 if axis[0] == "B" else 2)
            found = found - row.reshape([-1 if j == i else 1 for j in range(len(sizes))])
    # Of many keys some of each part are seen, where they may come in blocks.
    runs = 3 if sizes[key] > 16 else 1
    return found * runs % sizes[key] < (sizes[key] + 1) // 2


def _edges(n: Lengths) -> np.ndarray:
    """Sources and targets of edges in no order: as many begin at a node, and end there, as at any other."""
    nodes = np.arange(n.T)
    ends = [(np.roll(nodes, -step), nodes) for step in range(min(DEGREE, n.T))]
    return np.random.default_rng(1).permutation(np.concatenate(ends, axis=1), axis=1)


def _angles(n: Lengths, half: bool) -> np.ndarray:
    rates = np.arange(n.D // 2) if half else np.arange(n.D) % max(1, n.D // 2)
    return np.arange(n.T)[:, None] * 0.3**rates


def _each(n: Lengths, x: np.ndarray) -> np.ndarray:
    """The same for each sample."""
    return np.broadcast_to(x, (n.B, *x.shape))


# Lengths where there are fewer keys than elsewhere, and the number of one word, where there are no samples.
SHORTER, WORD = "lengths in T", "a word"


OTHERS: dict[str, Callable[[Lengths, np.random.Generator], np.ndarray]] = {
    "lengths": lambda n, r: np.linspace(n.S, max(1, n.S - 2), n.B).astype(int),
    SHORTER: lambda n, r: np.linspace(n.T, max(1, n.T - 2), n.B).astype(int),
    "tokens": lambda n, r: r.integers(0, 4, (n.B, n.T)),
    "one token": lambda n, r: r.integers(0, 4, n.B),
    WORD: lambda n, r: r.integers(2, 4, ()),
    "tokens of one": lambda n, r: r.integers(0, 4, n.T),
    "positions": lambda n, r: np.arange(n.T),
    "positions (B, T)": lambda n, r: np.broadcast_to(np.arange(n.T), (n.B, n.T)),
    "positions (B, S)": lambda n, r: np.broadcast_to(np.arange(n.S), (n.B, n.S)),
    "bounds": lambda n, r: np.arange(n.B + 1, dtype=np.int32) * n.T,
    "bounds in T": lambda n, r: np.array([0, n.T // 2, n.T], dtype=np.int32),
    "parts of T": lambda n, r: np.diff(OTHERS["bounds in T"](n, r)),
    "edges": lambda n, r: _edges(n),
    "pairs of edges": lambda n, r: _edges(n).T,
    "sources": lambda n, r: _edges(n)[0],
    "targets": lambda n, r: _edges(n)[1],
    "sorts of edges": lambda n, r: r.integers(0, 2, len(_edges(n)[0])),
    "pages": lambda n, r: r.permutation(n.axis("n")).reshape(n.B, -1),
    PARENTS: lambda n, r: np.array(parents(n.T)),
    "turns": lambda n, r: np.exp(1j * _angles(n, True)),
    "cosines": lambda n, r: np.cos(_angles(n, False)),
    "sines": lambda n, r: np.sin(_angles(n, False)),
    "half cosines": lambda n, r: np.cos(_angles(n, True)),
    "half sines": lambda n, r: np.sin(_angles(n, True)),
    "cosines (B, T)": lambda n, r: _each(n, np.cos(_angles(n, False))),
    "sines (B, T)": lambda n, r: _each(n, np.sin(_angles(n, False))),
    "half cosines (B, T)": lambda n, r: _each(n, np.cos(_angles(n, True))),
    "half sines (B, T)": lambda n, r: _each(n, np.sin(_angles(n, True))),
}
MASKS = (
    "mask (T, S)", "mask (B, S)", "mask (B, 1, T, S)", "mask (B, 1, 1, S)", "mask (B, T, S)", "mask (B, 1, S)",
    "mask (B H, T, S)", "0 and 1 (T, S)", "0 and 1 (B, S)", "0 and 1 (B, 1, 1, S)", "added (T, S)",
    "added (B, 1, T, S)", "added (B, T, S)", "added (B, S)", "added (B, 1, 1, S)",
)  # fmt: skip
# The axis of keys in what several calls share, each of which gets one.
EACH_CALL = "Y"
# Lengths that no array holds.
LISTED = "list of lengths"
# One position, behind which there is another, and before which there are some.
POSITION = "a position"
WHOLE = (
    "lengths", SHORTER, "tokens", "one token", "tokens of one", "positions", "positions (B, T)", "positions (B, S)",
    "bounds", "bounds in T", "parts of T", "edges", "pairs of edges", "sources", "targets", "sorts of edges", "pages",
)  # fmt: skip
VALUES: dict[str, Callable[[Lengths], Any]] = {
    "width of all": lambda n: n.W,
    "number of heads": lambda n: n.H,
    "width of a head": lambda n: n.D,
    "length": lambda n: n.T,
    "side": lambda n: round(n.T**0.5),
    "0": lambda n: 0,
    "1": lambda n: 1,
    "2": lambda n: 2,
    "0.0": lambda n: 0.0,
    "1.0": lambda n: 1.0,
    "scale": lambda n: n.D**-0.5,
    "False": lambda n: False,
    "True": lambda n: True,
    "None": lambda n: None,
    "pair of sides": lambda n: (round(n.T**0.5),) * 2,
    "triple of sides": lambda n: (2, ceil((n.T / 2) ** 0.5), ceil((n.T / 2) ** 0.5)),
    "number of key heads": lambda n: n.axis("G"),
    "another width": lambda n: n.axis("U"),
    "length of a page": lambda n: PAGE,
    "root of a width": lambda n: n.D**0.5,
    "base of rates": lambda n: 100.0,
    POSITION: lambda n: max(n.T - 2, 0),
    HUNG: lambda n: parents(n.T),
    PATHS: lambda n: paths(n.T),
    LISTED: lambda n: OTHERS["lengths"](n, np.random.default_rng(0)).tolist(),
}
FUNCTIONS = ("identity", "linear", "causal pairs")
NAMED = ("config", "dictionary")
HOLDERS = (*NAMED, "2 of them", "3 of them", "4 of them")
# An object of the candidate's module that has what an argument is asked for.
OWN = "its own config number"
# A list of dictionaries, or of tuples, each of which has a row of every array.
ROWS = "1 of each row"
# The sides of a map, or those of several.
SIZES = "sizes "
# Names of all that something keeps keys and values of: numbers, as many as an axis is long.
EACH = "each of "
# What random numbers are drawn with.
RANDOM = "random"
STREAMS = "random streams"
KINDS = (
    *FLOATS,
    *MASKS,
    *(kind for kind in (*OTHERS, *VALUES) if kind not in (WORD, SHORTER, POSITION, *TREES)),
    *FUNCTIONS,
    *HOLDERS,
)
# What a constructor takes.
SAMPLES = "length of B"
NUMBERS = (*(kind for kind in VALUES if kind not in (POSITION, LISTED, *TREES)), SAMPLES, *NAMED, "identity", "linear")


def is_mask(kind: str) -> bool:
    """Whether a kind is one of masks: booleans, numbers 0 and 1, or what is added to the scores."""
    return kind.startswith(("mask (", "0 and 1 (", "added ("))


def is_floats(kind: str) -> bool:
    """Whether a kind is an array of numbers, by its axes."""
    return kind not in _NAMES and kind.isalnum()


def mixed(kinds: Sequence[str]) -> bool:
    """Whether some arrays of positions have samples, and others have none: they may go together by accident."""
    arrays = (set(axes_of(kind)) for kind in kinds if is_floats(kind) or is_mask(kind))
    some = [axes for axes in arrays if set("TSh") & axes]
    return len({bool(axes & set("Bn")) for axes in some if not {"T", "S"} <= axes}) == 2


def axes_of(kind: str) -> tuple[str, ...]:
    """The axes of a kind of array by their letters; none of anything else."""
    if is_mask(kind):
        return tuple(axis.strip() for axis in kind.partition("(")[2].rstrip(")").split(","))
    below = re.fullmatch(r"below \d+: (\w+)", kind)
    return tuple((below[1] if below else kind if is_floats(kind) else "").replace(EACH_CALL, "S"))


def with_axes(kind: str, axes: Sequence[str]) -> str:
    """The same sort of array with other axes."""
    if is_mask(kind):
        return f"{kind.partition('(')[0]}({', '.join(axes)})"
    return kind.rpartition(": ")[0] + ": " * (": " in kind) + "".join(axes)


def along(kind: str) -> int | None:
    """The axis of the positions of a kind of array."""
    axes = () if is_mask(kind) else axes_of(kind)
    return next((axes.index(letter) for letter in "TS" if letter in axes), None)


_NAMES = frozenset((*OTHERS, *VALUES, *FUNCTIONS, *HOLDERS, RANDOM, STREAMS))


@dataclass(frozen=True)
class Guess:
    """What each argument is taken for, and what lies in one; the lengths of the axes; and the width of numbers."""

    kinds: tuple[tuple[Path, str], ...]
    lengths: Lengths
    dtype: str = "float64"
    # whether documentation gives the shapes of all arrays
    told: bool = field(default=False, compare=False)
    # how many of its arguments were given because they were None where they are used
    wanted: int = field(default=0, compare=False)

    @property
    def by_name(self) -> dict[str, str]:
        """The kinds by the names of what they are, which are those of its arrays."""
        return {".".join(path): kind for path, kind in self.kinds}

    @property
    def first(self) -> str:
        """The kind of its first array of numbers."""
        return next((kind for _, kind in self.kinds if is_floats(kind)), "")

    @property
    def names(self) -> set[str]:
        """The arguments that are given."""
        return {path[0] for path, _ in self.kinds}

    def given(self, path: Path, kind: str) -> Guess:
        """With another kind at one place, and nothing in it but what such a kind has."""
        kept = [(p, k) for p, k in self.kinds if p[: len(path)] != path]
        number = next((n for n, (p, _) in enumerate(self.kinds) if p == path), len(kept))
        inside: list[tuple[Path, str]] = [(path, kind)]
        if kind[1:] == " of them" and kind[0] in "1234":
            family = ("BTW", "BSW", "BSW") if kind[0] != "4" else ("WW",)
            inside += [((*path, str(n)), family[min(n, len(family) - 1)]) for n in range(int(kind[0]))]
        return replace(self, kinds=(*kept[:number], *inside, *kept[number:]), told=False)

    @property
    def alone(self) -> Guess:
        """With as many keys as queries where no array has keys: masks and lengths are those of the queries then."""
        arrays = [set(kind) for _, kind in self.kinds if is_floats(kind)]
        hides = any(is_mask(kind) or kind in ("lengths", SHORTER, LISTED) for _, kind in self.kinds)
        if not hides or not any("T" in axes for axes in arrays) or any({"S", "n"} & axes for axes in arrays):
            return self
        return self.sized(S=self.lengths.T)

    @property
    def turned(self) -> Guess:
        """With positions first in what begins with samples and positions."""
        kinds = ((p, k[1] + k[0] + k[2:] if re.match(r"B[TS]\w*$", k) and is_floats(k) else k) for p, k in self.kinds)
        return replace(self, kinds=tuple(kinds))

    def shared(self, names: set[str]) -> Guess:
        """With positions in arrays that several calls share, one in each, where these have none."""
        lone = {p for p, k in self.kinds if p[0] in names and len(p) == 1 and axes_of(k) and along(k) is None}
        kinds = ((p, with_axes(k, (EACH_CALL, *axes_of(k))) if p in lone else k) for p, k in self.kinds)
        return replace(self, kinds=tuple(kinds)) if lone else self

    def sized(self, **lengths: Any) -> Guess:
        """With other lengths."""
        return replace(self, lengths=replace(self.lengths, **lengths))

    @property
    def shown(self) -> str:
        """As much of it as a message has."""
        return brief(str(self), _SHOWN)

    @property
    def size(self) -> int:
        """How many numbers its arrays have."""
        axes = ("WW" if kind == "linear" else "".join(axes_of(kind)).replace(" ", "") for _, kind in self.kinds)
        return sum(prod(map(self.lengths.axis, letters)) for letters in axes if letters)

    def __str__(self) -> str:
        told = ", ".join(f"{'.'.join(path)}: {kind.replace(EACH_CALL, 'S')}" for path, kind in self.kinds)
        return f"{told} ({self.lengths}, {self.dtype})"


# As how many names found what the module makes counts.
_MADE = 64


@dataclass(frozen=True, eq=False)
class Tried:
    """A guess and what came of it."""

    guess: Guess
    reply: dict[str, Any]

    @property
    def error(self) -> dict[str, Any] | None:
        return self.reply.get("error")

    @cached_property
    def reached(self) -> tuple[Any, ...]:
        """How far it came: the places in the candidate's code, from the outermost, and how much was asked for there."""
        error = self.error or {}
        kinds = dict(self.guess.kinds)
        asking = [path for path, kind in kinds.items() if kind in NAMED]
        # What the module makes has all that is asked for.
        made = sum(len(path) == 1 and kind[:3] == "by " for path, kind in kinds.items())
        found = sum(path[:-1] in asking for path in kinds) + _MADE * made + self.guess.wanted
        # A loop asks for the next name at an earlier place.
        missing = error.get("missing")
        return found, bool(asking and missing and not missing["called"]), tuple(error.get("reached") or ())

    def __str__(self) -> str:
        error = self.error
        told = "it runs" if error is None else f"{error['type']}: {brief(error['message'], 100).rstrip('.')}"
        return f"{self.guess.shown}: {told}"


def specs(guess: Guess, interface: Interface, prefix: str = "") -> tuple[list[Spec], dict[str, Spec], dict[str, Any]]:
    """The arguments of a guess, those by position and those by name, and the arrays that they point to."""
    given, arrays = named(guess, interface, prefix)
    return (*placed(given, interface), arrays)


# Where fields lie in what an argument is made of.
_INSIDE = {"config": "config", "dict": "dict", "own": "fields", "by": "given"}


def valued(given: Mapping[str, Spec], values: Mapping[str, Any], configs: Mapping[str, int]) -> dict[str, Spec]:
    """Arguments with other values, or fields (``cfg.window``), by names; configs: what some are unless given."""
    found = dict(given)
    for name, value in values.items():
        holder, _, field = name.partition(".")
        own: Mapping[str, Any] = found.get(holder, {"own": configs[holder]} if holder in configs else {})
        inside = next((place for kind, place in _INSIDE.items() if field and kind in own), None)
        if not field:
            found[name] = {"value": value}
        elif inside is not None:
            found[holder] = {**own, inside: {**own.get(inside, {}), field: {"value": value}}}
    return found


def keeping(given: Mapping[str, Spec]) -> dict[str, Spec]:
    """Arguments of calls that go on from each other: what was made for them, or is filled by them, is one in all."""
    kept: dict[str, Spec] = {name: spec if "by" in spec else {"value": {}} for name, spec in given.items()
                             if "by" in spec or spec.get("dict") == {}}  # fmt: skip
    return {name: {**kept[name], "kept": name} if name in kept else spec for name, spec in given.items()}


def placed(given: Mapping[str, Spec], interface: Interface) -> tuple[list[Spec], dict[str, Spec]]:
    """Arguments by position, as far as they follow each other, and those by name."""
    args: list[Spec] = []
    kwargs: dict[str, Spec] = {}
    positional = True
    for argument in interface.arguments:
        if argument.name not in given:
            positional = False
        elif (positional and argument.kind != "keyword") or argument.kind == "position":
            args.append(given[argument.name])
        else:
            kwargs[argument.name] = given[argument.name]
    return args, kwargs


def named(guess: Guess, interface: Interface, prefix: str = "") -> tuple[dict[str, Spec], dict[str, Any]]:
    """The arguments of a guess by their names, and the arrays that they point to."""
    arrays: dict[str, np.ndarray] = {}
    kinds = dict(guess.kinds)
    random = np.random.default_rng(0)
    n = guess.lengths
    parts: dict[Path, list[Path]] = {}
    for path in kinds:
        parts.setdefault(path[:-1], []).append(path)

    def spec(path: Path) -> Spec:
        kind, key = kinds[path], prefix + ".".join(path)
        inside = {p[-1]: spec(p) for p in parts.get(path, ())}
        if kind in NAMED:
            return {"config" if kind == "config" else "dict": inside, "path": list(path)}
        if kind == ROWS:
            return {"rows": inside["0"]}
        if kind.endswith(" of them"):
            return {"list": list(inside.values())}
        if kind in VALUES:
            return {"sizes" if kind == PATHS else "value": VALUES[kind](n)}
        if kind.startswith(SIZES):
            return {"sizes": ast.literal_eval(kind.removeprefix(SIZES))}
        if kind.startswith(OWN):
            return {"own": int(kind.rpartition(" ")[2])}
        if kind[:6] == "text: ":
            return {"value": kind[6:]}
        if kind[:3] == "by ":
            # What lies in pages is there before it is asked for.
            more: dict[str, Any] = {"filled": True} if "pages" in kinds.values() else {}
            # What is asked for each of several has keys and values of each.
            each = next((k for k in kinds.values() if k.startswith(EACH)), None)
            if each is not None:
                more["lengths"] = np.linspace(n.S, max(1, n.S - 1), n.axis(each[-1])).astype(int).tolist()
            # What it does not write to, or call a method of, is not empty either.
            code = interface.description["source"] + interface.description["reached"]
            written = re.search(rf"\b{re.escape(path[-1])}\.\w+(\(|\[[^\]]*\]\s*=[^=])", code)
            # Of the whole, an argument may be the part that has what it is asked for.
            asked = sorted({p[1] for p in interface.read.held if p[:-1] == path and not p[1].isdigit()})
            called = sorted(interface.read.methods.get(path, ()))
            more |= {name: some for name, some in {"asked": asked, "called": called}.items() if some}
            # What has slots that nothing is written to has them.
            more |= {"blank": True} if interface.intents["slots unwritten"] else {}
            return {"by": kind[3:], "given": inside} | more | ({} if written else {"empty": True})
        if kind[:5] == "like ":
            return spec((kind[5:],))
        if kind in (RANDOM, STREAMS):
            return {"random": kind}
        if kind.startswith(EACH):
            return {"value": [*range(n.axis(kind[-1]))]}
        if kind[:10] == "length of ":
            return {"value": n.axis(kind[10:])}
        if kind in FUNCTIONS:
            if kind == "linear":
                arrays[key] = random.normal(size=(n.W, n.W)) * n.W**-0.5
                return {"function": kind, "matrix": {"array": key}}
            return {"function": kind}
        if kind in OTHERS:
            arrays[key] = np.array(OTHERS[kind](n, random), order="C")
        elif is_mask(kind):
            seen = _seen(n, axes_of(kind))
            numbers = {"0": seen.astype(float), "a": np.where(seen, 0.0, -np.inf)}
            arrays[key] = numbers.get(kind[0], seen)
        else:
            shape = tuple(n.axis(letter) for letter in axes_of(kind))
            if ": " in kind:
                # What says that there is nothing is -1.
                least = -1 if path in interface.read.negative else 0
                arrays[key] = random.integers(least, int(kind.split()[1].rstrip(":")), shape)
                return {"array": key}
            # Of weights, the numbers are small.
            weights = len(shape) > 1 and not set(kind) & set("BTSNnX")
            arrays[key] = random.normal(size=shape) * (n.W**-0.5 if weights else 1)
            if path[0] in interface.ranges and len(path) == 1 and not set(kind) & set("DWUEP"):
                # Features may be of either sign all the same, or they would be taken for what is mapped first.
                arrays[key] = interface.ranges[path[0]].put(arrays[key])
        return {"array": key}

    found = {a.name: spec((a.name,)) for a in interface.arguments if (a.name,) in kinds}
    for a in interface.arguments:
        if a.each and "array" in found.get(a.name, ()) and (axis := along(kinds[a.name,])) is not None:
            # The last part has as many as there are queries.
            cuts = [n.S - n.T] if n.S > n.T else []
            found[a.name] |= {"parts": cuts, "axis": axis, "rows": EACH_CALL in kinds[a.name,]}
    return found, arrays
