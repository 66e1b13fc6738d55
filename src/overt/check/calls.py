"""A call that works, by trying: what each argument may be is a hypothesis, names order them, and running settles it.

What documentation gives as shapes is tried first.  From there the search is best-first: of the calls tried, the one
that came furthest in the candidate's own code is changed until one comes further, first by what its failure asks for:
another length where two did not fit, another number of axes, whole numbers.  A call that fails proves nothing about the
candidate.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice, product, zip_longest
from math import gcd, prod
from typing import Any

import numpy as np

from overt.check import shapes
from overt.check.interface import Interface
from overt.check.promises import AXIS_WORDS, behind
from overt.check.reading import contracted
from overt.check.roles import INPUTS, Argument, constructor_role, role
from overt.check.session import Here, Session
from overt.check.shapes import Path, Shape

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
        side = round(self.T**0.5)
        told = dict(self.more)
        if letter in told:
            return told[letter]
        own = {
            "h": side, "w": side, "P": 3 * self.W, "r": self.D // 2, "1": 1, "2": 2, "3": 3, "N": self.B * self.T,
            "X": self.B * self.H, "E": 2 * self.D, "G": self.G or self.H, "U": self.U or 2 * self.W,
            "n": self.B * -(-self.S // PAGE), "p": PAGE,
        }  # fmt: skip
        return own[letter] if letter in own else int(getattr(self, letter))

    def resized(self, letter: str, length: int) -> Lengths:
        """With another length of an axis; the width of all is that of the heads together, where it can be."""
        if letter in "BTSGU":
            return replace(self, **{letter: length})  # type: ignore[arg-type]
        if letter in "HDW":
            H, D, W = (length if name == letter else getattr(self, name) for name in "HDW")
            return replace(self, H=H, D=W // H if letter == "W" and W % H == 0 else D, W=W if letter == "W" else H * D)
        return replace(self, more=(*((a, n) for a, n in self.more if a != letter), (letter, length)))

    def __str__(self) -> str:
        groups = f", key heads {self.G}" if self.G else ""
        more = "".join(f", {letter} {length}" for letter, length in self.more)
        return f"batch {self.B}, heads {self.H}{groups}, {self.T} queries, {self.S} keys, width {self.W}{more}"


# Lengths that are letters.
_PLAIN = ("1", "2", "3")
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
# What a failure asks for, as far as it is likely.
_MENDED = 10
# Ways to give numbers to a constructor.
_WAYS = 40
# Calls of which arguments are replaced by what the module makes, and as how many names found that counts.
_BASES, _MADE = 8, 12
_TURNS = (0, 0, 1, 0, 0, 2, 0, 1, 3)


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
_FLOATS = (
    "BTW", "BSW", "BHTD", "BGSD", "BTHD", "BSGD", "TW", "SW", "BW", "W", "WW", "BTP", "BT3HD", "BWT", "BWhw", "BhwW",
    "TBW", "SBW", "HTD", "GSD", "THD", "SGD", "NHD", "BSD", "TD", "SD", "D", "BU", "BSU", "SBU", "TU", "SU", "WP", "PW",
    "UW", "WU", "WD", "W1", "P", "H", "HWD", "WHD", "HDW", "WGD", "GWD", "3WW", "WHT", "BHTS", "HTS", "BTS", "TS",
    "1BW", "1BU", "B1W", "3BHTD", "B3HTD", "BTH3", "TP", "T3HD", "B1SD", "BS1D", "Tr", "BHD", "BGSE",
    "BSE", "npGD", "nGpD", "H1", "U",
)  # fmt: skip


def _seen(n: Lengths, axes: Sequence[str]) -> np.ndarray:
    """Booleans: of each row about half are True, in runs that no other row has, however they are read."""
    sizes = [prod(n.axis(letter) for letter in axis if letter != " ") for axis in axes]
    key = max((i for i, size in enumerate(sizes) if size > 1), default=len(sizes) - 1)
    found = np.arange(sizes[key]).reshape([-1 if i == key else 1 for i in range(len(sizes))])
    for i, (axis, size) in enumerate(zip(axes, sizes, strict=True)):
        if i != key:
            # Heads of one sample see the same.
            row = np.arange(size) // (n.H if axis == "B H" else 1) * (1 if axis[0] == "B" else 2)
            found = found - row.reshape([-1 if j == i else 1 for j in range(len(sizes))])
    return found % sizes[key] < (sizes[key] + 1) // 2


def _edges(n: Lengths) -> np.ndarray:
    """Sources and targets of edges in no order: as many begin at a node, and end there, as at any other."""
    nodes = np.arange(n.T)
    ends = [(np.roll(nodes, -step), nodes) for step in range(min(DEGREE, n.T))]
    return np.random.default_rng(1).permutation(np.concatenate(ends, axis=1), axis=1)


def _angles(n: Lengths, half: bool) -> np.ndarray:
    rates = np.arange(n.D // 2) if half else np.arange(n.D) % max(1, n.D // 2)
    return np.arange(n.T)[:, None] * 0.3**rates


_OTHERS: dict[str, Callable[[Lengths, np.random.Generator], np.ndarray]] = {
    "lengths": lambda n, r: np.linspace(max(1, n.S - 1), n.S, n.B).astype(int),
    "tokens": lambda n, r: r.integers(0, 4, (n.B, n.T)),
    "one token": lambda n, r: r.integers(0, 4, n.B),
    "tokens of one": lambda n, r: r.integers(0, 4, n.T),
    "positions": lambda n, r: np.arange(n.T),
    "positions (B, T)": lambda n, r: np.broadcast_to(np.arange(n.T), (n.B, n.T)),
    "bounds": lambda n, r: np.arange(n.B + 1, dtype=np.int32) * n.T,
    "edges": lambda n, r: _edges(n),
    "sources": lambda n, r: _edges(n)[0],
    "targets": lambda n, r: _edges(n)[1],
    "pages": lambda n, r: r.permutation(n.axis("n")).reshape(n.B, -1),
    "turns": lambda n, r: np.exp(1j * _angles(n, True)),
    "cosines": lambda n, r: np.cos(_angles(n, False)),
    "sines": lambda n, r: np.sin(_angles(n, False)),
    "half cosines": lambda n, r: np.cos(_angles(n, True)),
    "half sines": lambda n, r: np.sin(_angles(n, True)),
}
MASKS = (
    "mask (T, S)", "mask (B, S)", "mask (B, 1, T, S)", "mask (B, 1, 1, S)", "mask (B, T, S)", "mask (B, 1, S)",
    "mask (B H, T, S)", "0 and 1 (T, S)", "0 and 1 (B, S)", "0 and 1 (B, 1, 1, S)", "added (T, S)",
    "added (B, 1, T, S)",
)  # fmt: skip
_WHOLE = (
    "lengths",
    "tokens",
    "one token",
    "tokens of one",
    "positions",
    "positions (B, T)",
    "bounds",
    "edges",
    "sources",
    "targets",
    "pages",
)
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
    "number of key heads": lambda n: n.axis("G"),
    "another width": lambda n: n.axis("U"),
    "length of a page": lambda n: PAGE,
    "root of a width": lambda n: n.D**0.5,
}
# What a constructor is given first, where no name tells.
_NUMBERS = ("width of all", "number of heads", "width of a head", "length", "another width")
_FUNCTIONS = ("identity", "linear", "causal pairs")
_NAMED = ("config", "dictionary")
_HOLDERS = (*_NAMED, "2 of them", "3 of them", "4 of them")
# An object of the candidate's module that has what an argument is asked for.
_OWN = "its own config number"
# What random numbers are drawn with.
RANDOM = "random"
KINDS = (*_FLOATS, *MASKS, *_OTHERS, *VALUES, *_FUNCTIONS, *_HOLDERS)
# What a constructor takes.
NUMBERS = (*VALUES, *_NAMED, "identity")
# The kinds that each role of a name suggests, by family: how the arrays of one call lie together.
_FAMILIES: tuple[dict[str, str], ...] = (
    {"q": "BHTD", "k": "BGSD", "v": "BGSD", "x": "BTW", "context": "BSW", "qkv": "BTP"},
    {"q": "BTW", "k": "BSW", "v": "BSW", "x": "BHTD", "context": "BGSD", "qkv": "BT3HD"},
    {"q": "BTHD", "k": "BSGD", "v": "BSGD", "x": "BWhw", "context": "BWhw", "qkv": "3BHTD"},
    {"q": "TW", "k": "SW", "v": "SW", "x": "TW", "context": "SW", "qkv": "TP"},
    {"q": "BW", "k": "BSW", "v": "BSW", "x": "BW", "context": "BSW", "qkv": "B3HTD"},
    {"q": "NHD", "k": "NHD", "v": "NHD", "x": "TBW", "context": "SBW", "qkv": "T3HD"},
    {"q": "HTD", "k": "GSD", "v": "GSD", "x": "BW", "context": "BSU", "qkv": "BTH3"},
    {"q": "BHTD", "k": "BSD", "v": "BSD", "x": "BW", "context": "SBU", "qkv": "BTP"},
)
# The same where one array asks another: a state and a memory.
_PAIRS = (
    ("BTW", "BSW"), ("BW", "BSW"), ("1BW", "BSW"), ("1BW", "SBW"), ("BW", "SBW"), ("TW", "SW"), ("W", "SW"),
    ("BHTD", "BGSD"), ("BW", "BSU"),
)  # fmt: skip
_ROLES = {
    "mask": "mask (T, S)", "padding": "mask (B, S)", "lengths": "lengths", "heads": "number of heads",
    "groups": "number of key heads", "model_dim": "width of all", "att_dim": "width of all",
    "head_dim": "width of a head", "length": "length", "key_length": "length", "window": "side", "drop": "0.0",
    "causal": "False", "training": "False", "scale": "scale", "temperature": "1.0", "offset": "0", "seed": "0",
    "cache": "None", "positions": "positions", "cos": "cosines", "sin": "sines", "repeats": "1", "vocab": "length",
    "bias": "BHTS", "first": "True", "config": "config", "params": "dictionary", "Wq": "WW", "Wk": "WW", "Wv": "WW",
    "Wo": "WW", "Wqkv": "WP", "bqkv": "P", "bq": "W", "bk": "W", "bv": "W", "bo": "W",
}  # fmt: skip
# Weights, biases and gains by their letters.
_LETTERS = ("w", "W", "b", "B", "g")
# Parts of names that no role has, and what goes by them.
_PARTS = {
    "freq": "turns", "cu_": "bounds", "rot": "turns", "table": "pages", "edge_ind": "edges", "sender": "sources",
    "receiver": "targets",
}  # fmt: skip
# Words of what a library raises, and what it wants there.
_WANTED = {
    "integer": VALUES, "an index": VALUES, "int object": VALUES, "not callable": _FUNCTIONS, "string": _HOLDERS,
    "list of": _HOLDERS, "must be Tensor": _FLOATS, "unpack": _HOLDERS, "subscriptable": _HOLDERS, "indices": _HOLDERS,
    "NoneType": (*_FLOATS, *MASKS, *_OTHERS), "mask": MASKS, "bool": MASKS, "Long": _WHOLE,
}  # fmt: skip


def is_mask(kind: str) -> bool:
    """Whether a kind is one of masks: booleans, numbers 0 and 1, or what is added to the scores."""
    return kind.startswith(("mask (", "0 and 1 (", "added ("))


def is_floats(kind: str) -> bool:
    """Whether a kind is an array of numbers, by its axes."""
    return kind not in _NAMES and kind.isalnum()


def mixed(kinds: Sequence[str]) -> bool:
    """Whether some arrays of positions have samples, and others have none: they may go together by accident."""
    some = [set(kind) for kind in kinds if is_floats(kind) and set("TSh") & set(kind)]
    return len({bool(axes & set("Bn")) for axes in some if not {"T", "S"} <= axes}) == 2


def axes_of(kind: str) -> tuple[str, ...]:
    """The axes of a kind of array by their letters; none of anything else."""
    if is_mask(kind):
        return tuple(axis.strip() for axis in kind.partition("(")[2].rstrip(")").split(","))
    below = re.fullmatch(r"below \d+: (\w+)", kind)
    return tuple(below[1] if below else kind if is_floats(kind) else "")


def _with_axes(kind: str, axes: Sequence[str]) -> str:
    """The same sort of array with other axes."""
    if is_mask(kind):
        return f"{kind.partition('(')[0]}({', '.join(axes)})"
    return kind.rpartition(": ")[0] + ": " * (": " in kind) + "".join(axes)


_NAMES = frozenset((*_OTHERS, *VALUES, *_FUNCTIONS, *_HOLDERS, RANDOM))


# What libraries say where an array of whole numbers, or of booleans, is wanted.
_WHOLE_WANTED = r"[Ll]ong|int(eger)?(32|64|s)?\b.*(index|indices|type)|ind(ex|ices).*([Ii]nt|boolean)"
_BOOLEANS_WANTED = r"[Bb]ool|boolean"


@dataclass(frozen=True)
class Guess:
    """What each argument is taken for, and what lies in one; the lengths of the axes; and the width of numbers."""

    kinds: tuple[tuple[Path, str], ...]
    lengths: Lengths
    dtype: str = "float64"

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
        return replace(self, kinds=(*kept[:number], *inside, *kept[number:]))

    @property
    def alone(self) -> Guess:
        """With as many keys as queries where no array has keys: masks and lengths are those of the queries then."""
        arrays = [set(kind) for _, kind in self.kinds if is_floats(kind)]
        hides = any(is_mask(kind) or kind == "lengths" for _, kind in self.kinds)
        if not hides or not any("T" in axes for axes in arrays) or any({"S", "n"} & axes for axes in arrays):
            return self
        return replace(self, lengths=replace(self.lengths, S=self.lengths.T))

    def __str__(self) -> str:
        told = ", ".join(f"{'.'.join(path)}: {kind}" for path, kind in self.kinds)
        return f"{told} ({self.lengths}, {self.dtype})"


@dataclass(frozen=True, eq=False)
class Tried:
    """A guess and what came of it."""

    guess: Guess
    reply: dict[str, Any]

    @property
    def error(self) -> dict[str, Any] | None:
        return self.reply.get("error")

    @property
    def reached(self) -> tuple[Any, ...]:
        """How far it came: the places in the candidate's code, from the outermost, and how much was asked for there."""
        error = self.error or {}
        kinds = dict(self.guess.kinds)
        asking = [path for path, kind in kinds.items() if kind in _NAMED]
        # What the module makes has all that is asked for.
        made = sum(len(path) == 1 and kind[:3] == "by " for path, kind in kinds.items())
        found = sum(path[:-1] in asking for path in kinds) + _MADE * made
        # A loop asks for the next name at an earlier place.
        missing = error.get("missing")
        return found, bool(asking and missing and not missing["called"]), tuple(error.get("reached") or ())

    def __str__(self) -> str:
        told = "it runs" if self.error is None else f"{self.error['type']}: {self.error['message'][:100]}"
        return f"{self.guess}: {told}"


def specs(guess: Guess, interface: Interface, prefix: str = "") -> tuple[list[Spec], dict[str, Spec], dict[str, Any]]:
    """The arguments of a guess, those by position and those by name, and the arrays that they point to."""
    arrays: dict[str, np.ndarray] = {}
    args: list[Spec] = []
    kwargs: dict[str, Spec] = {}
    kinds = dict(guess.kinds)
    random = np.random.default_rng(0)
    n = guess.lengths

    def spec(path: Path) -> Spec:
        kind, key = kinds[path], prefix + ".".join(path)
        inside = {p[-1]: spec(p) for p in kinds if p[:-1] == path}
        if kind in _NAMED:
            return {"config" if kind == "config" else "dict": inside, "path": list(path)}
        if kind.endswith(" of them"):
            return {"list": list(inside.values())}
        if kind in VALUES:
            return {"value": VALUES[kind](n)}
        if kind.startswith(_OWN):
            return {"own": int(kind.rpartition(" ")[2])}
        if kind[:6] == "text: ":
            return {"value": kind[6:]}
        if kind[:3] == "by ":
            return {"by": kind[3:], "given": inside}
        if kind[:5] == "like ":
            return spec((kind[5:],))
        if kind == RANDOM:
            return {"random": True}
        if kind[:10] == "length of ":
            return {"value": n.axis(kind[10:])}
        if kind in _FUNCTIONS:
            if kind == "linear":
                arrays[key] = random.normal(size=(n.W, n.W)) * n.W**-0.5
                return {"function": kind, "matrix": {"array": key}}
            return {"function": kind}
        if kind in _OTHERS:
            arrays[key] = np.ascontiguousarray(_OTHERS[kind](n, random))
        elif is_mask(kind):
            seen = _seen(n, axes_of(kind))
            numbers = {"0": seen.astype(float), "a": np.where(seen, 0.0, -np.inf)}
            arrays[key] = numbers.get(kind[0], seen)
        else:
            shape = tuple(n.axis(letter) for letter in axes_of(kind))
            if ": " in kind:
                arrays[key] = random.integers(0, int(kind.split()[1].rstrip(":")), shape)
                return {"array": key}
            # Of weights, the numbers are small.
            weights = len(shape) > 1 and not set(kind) & set("BTSNnX")
            arrays[key] = random.normal(size=shape) * (n.W**-0.5 if weights else 1)
        return {"array": key}

    positional = True
    for argument in interface.arguments:
        path = (argument.name,)
        if path not in kinds:
            positional = False
        elif (positional and argument.kind != "keyword") or argument.kind == "position":
            args.append(spec(path))
        else:
            kwargs[argument.name] = spec(path)
    return args, kwargs, arrays


@dataclass(eq=False)
class _Node:
    """A call that failed, and the changes of it that were not tried yet."""

    tried: Tried
    changes: Iterator[Guess]


@dataclass
class Search:
    """Calls of one function, one instance or one constructor."""

    session: Session | Here
    interface: Interface
    # makes the request for many guesses, and gives a reply for each
    ask: Callable[[Sequence[Guess]], list[dict[str, Any]]]
    ladder: Sequence[Lengths] = LADDER
    kinds: Sequence[str] = KINDS
    dtypes: Sequence[str] = ("float64", "float32", "bfloat16", "float16")
    most: int = MOST
    # numbers that have a name: those of an instance, or defaults
    named: Mapping[str, int] = field(default_factory=dict)
    tried: list[Tried] = field(default_factory=list)
    _known: set[Guess] = field(default_factory=set)

    def run(self) -> Iterator[list[Tried]]:
        """What ran of each few guesses, the likelier first; what came furthest is changed until more is reached."""
        nodes: dict[tuple[Any, str], _Node] = {}
        first: Iterator[Guess] = chain(self._supplied(), self._documented(), self._first())
        guesses = first
        turn = -1
        while len(self.tried) < self.most:
            # A few of the first tell already which of several instances is the right one.
            most = BATCH if self.tried else len(_FAMILIES)
            batch = list(dict.fromkeys(islice((g for g in (g.alone for g in guesses) if g not in self._known), most)))
            self._known.update(batch)
            made = [Tried(g, reply) for g, reply in zip(batch, self.ask(batch) if batch else [], strict=True)]
            self.tried += made
            for tried in made:
                if tried.error is not None:
                    alike = tried.reached, _words(tried.error["message"])
                    if alike not in nodes:
                        nodes[alike] = _Node(tried, self._changed(tried))
            yield [tried for tried in made if tried.error is None]
            if batch and guesses is first:
                continue
            if not batch:
                nodes = {key: node for key, node in nodes.items() if node.changes is not guesses}
            if not nodes:
                return
            # The furthest most of the time: what came far may have come the wrong way.
            far = sorted(nodes, key=lambda key: key[0], reverse=True)
            turn += 1
            guesses = nodes[far[min(_TURNS[turn % len(_TURNS)], len(far) - 1)]].changes

    @property
    def reached(self) -> tuple[Any, ...]:
        """How far the furthest came."""
        return max((tried.reached for tried in self.tried if tried.error is not None), default=())

    def _first(self) -> Iterator[Guess]:
        """One guess a family and a size, with the roles that names suggest; nameless arrays are inputs in order."""
        required = [a for a in self.interface.arguments if a.required]
        told = {a.name: self.told(a) for a in required}
        unknown = [name for name, kind in told.items() if kind is None]
        if self.kinds[0] in VALUES:
            yield from self._numbers(told)
            return
        inputs = {1: ("x",), 2: ("q", "context"), 3: ("q", "k", "v")}.get(len(unknown), ("q", "k", "v", "x"))
        if "q" in told.values():
            inputs = ("context",) if len(unknown) == 1 else ("k", "v", "x")
        roles = {name: inputs[min(n, len(inputs) - 1)] for n, name in enumerate(unknown)}
        asked = {told[a.name] or roles[a.name] for a in required}
        # Where one array asks another, what is called values is more likely a parameter.
        pairs = [{"q": one, "x": one, "context": two, "v": "W"} for one, two in _PAIRS]
        families: Sequence[dict[str, str]] = _FAMILIES
        if self.interface.description["kind"] != "function" and "q" in asked:
            # An instance splits heads by itself.
            families = sorted(families, key=lambda family: "H" in family["q"])
        if "--layout" in self.interface.overrides:
            families = [_laid(self.interface.overrides["--layout"])]
        if "context" in asked and "k" not in asked:
            families = [*_FAMILIES, *pairs] if "x" in asked else pairs
        if "pages" in asked:
            families = [{"q": "BHD", "k": "npGD", "v": "npGD", "x": "npGD", "context": "npGD"}, *_FAMILIES]
        # What takes half precision alone says so at its first line.
        first = [(lengths, self.dtypes[0]) for lengths in self.ladder[:2]]
        for lengths, dtype in [*first, *((self.ladder[0], narrow) for narrow in self.dtypes[-1:])]:
            for family in families:
                if family["q"] == "NHD" and (lengths, dtype) == first[0] and "bounds" not in asked:
                    # Heads would pass for positions where as many keys as queries are wanted.
                    continue
                guess = Guess((), lengths, dtype)
                for a in required:
                    kind = told[a.name] or roles[a.name]
                    guess = guess.given((a.name,), family.get(kind, kind))
                yield guess
        arrays = [a.name for a in required if told[a.name] not in (*_OTHERS, *_FUNCTIONS, *_HOLDERS)]
        if len(arrays) > 2:
            # A state, the states that it asks, and what both are multiplied with, at last a vector or both together.
            for last, (one, two) in product(("W", "WW", "UW", "W1"), (("BW", "BSW"), ("BTW", "BSW"), ("TW", "SW"))):
                taken = dict(zip(arrays, (one, two, *["WW"] * (len(arrays) - 3), last), strict=True))
                guess = Guess((), self.ladder[0], self.dtypes[0])
                for a in required:
                    guess = guess.given((a.name,), taken.get(a.name) or told[a.name] or "")
                yield guess
        if len(required) > 3:
            # Whatever they are called: one input, and what it is multiplied with; the last may be a number.
            for one, (others, end) in product(("TW", "BTW"), product((("WW", "WW"), ("WHD", "HDW")), (True, False))):
                kinds = [one, *(others[:1] * (len(required) - 2 - end)), others[1], *(["number of heads"] * end)]
                guess = Guess((), self.ladder[0], self.dtypes[0])
                for a, kind in zip(required, kinds, strict=True):
                    guess = guess.given((a.name,), kind)
                yield guess

    def _supplied(self) -> Iterator[Guess]:
        """Calls in which arguments are what functions and classes of the module make."""
        makers = self.interface.makers
        if not makers:
            return
        for number in range(max(map(len, makers.values()))):
            for guess in islice(chain(self._documented(), self._first()), _BASES):
                for name, some in makers.items():
                    if (name,) in dict(guess.kinds):
                        guess = self._by(guess, (name,), some[min(number, len(some) - 1)], 0)
                yield guess

    def _by(self, guess: Guess, path: Path, maker: Mapping[str, Any], depth: int) -> Guess:
        """With what a maker makes at one place, of numbers that names suggest, or of arguments of the same names."""
        was = dict(guess.kinds)
        guess = guess.given(path, f"by {maker['name']}")
        mine = Interface({**self.interface.description, "source": maker["source"], "doc": ""}, maker["parameters"], {})
        told = shapes.shapes(mine.shaped, [a.name for a in mine.arguments], alone=False)
        kinds, lengths = lettered({path: shape for path, shape in told.items() if len(path) == 1}, guess.lengths, {})
        guess = replace(guess, lengths=lengths)
        for a in mine.arguments:
            here = (*path, a.name)
            kind = _ROLES.get(constructor_role(a.name) or "")
            inner = next((m for m in mine.makers.get(a.name, ()) if m["class"]), None)
            if (a.name,) in dict(guess.kinds) or a.name in guess.names:
                guess = guess.given(here, f"like {a.name}")
            elif not a.required and (kind not in _NUMBERS or type(a.default) is not int):
                continue
            elif a.name in mine.configs:
                guess = guess.given(here, f"{_OWN} {mine.configs[a.name]}")
            elif a.role == "seed":
                guess = guess.given(here, "0" if "seed" in a.name else RANDOM)
            elif re.search(r"rray|ensor", a.annotation) and (a.name,) not in kinds:
                beside = "w" + a.name if {"q", "k"} & {other.name for other in mine.arguments} else a.name
                some = self._weight((*path, beside))
                guess = guess.given(here, "WW" if here in self.interface.read.weights and len(some) == 1 else some)
            elif (a.name,) in kinds:
                known = was.get(here, "")
                guess = guess.given(here, known if is_floats(known) else kinds[a.name,])
            elif inner is not None and depth < 2:
                guess = self._by(guess, here, inner, depth + 1)
            elif kind in VALUES:
                guess = guess.given(here, kind)
            else:
                guess = guess.given(
                    here,
                    "1.0"
                    if "float" in a.annotation
                    else "number of heads"
                    if depth or maker["class"]
                    else "width of all",
                )
        return guess

    def _documented(self) -> Iterator[Guess]:
        """The shapes that documentation gives, in two dtypes; what has none is what its name suggests."""
        required = [a for a in self.interface.arguments if a.required]
        if "--layout" in self.interface.overrides:
            return
        names = [a.name for a in required]
        source, asked = self.interface.description["source"], self.interface.read
        fields = dict.fromkeys(m["source"] for some in self.interface.makers.values() for m in some if m["class"])
        text = "\n".join([self.interface.shaped, *map(behind, fields)])
        held = {path: kind for path, kind in asked.ends.items() if path[0] in names}
        told = shapes.shapes(text, names, held, alone=self.kinds[0] not in VALUES)
        for path in asked.compared | asked.indices:
            if path in told and not told[path].sort:
                told[path] = replace(told[path], sort="whole")
        found = contracted(source, names, told)
        if self.kinds[0] in VALUES:
            # A constructor takes matrices, and dictionaries of them, and numbers without a word on their shape.
            found = {path: shape for path, shape in found.items() if len(shape.axes) > 1 or len(path) > 1}
            held = {path: kind for path, kind in held.items() if kind == "dictionary" and not path[1].isdigit()}
        # What is asked for something by its name has no shape.
        owners = {path[:1] for path, kind in held.items() if kind != "config"}
        found = {path: shape for path, shape in found.items() if path not in owners}
        if not found and not owners:
            return
        # What asks has the first letters, and what lies in something the last.
        found = {path: found[path] for path in sorted(found, key=lambda path: (len(path), names.index(path[0])))}
        for size in (self.ladder[0], *self.ladder[3:4]):
            kinds, lengths = lettered(found, size, self.named)
            # Beside weights there are weights.
            weights = {path[0]: not set(kind) & set("BTSN") for path, kind in kinds.items() if len(path) > 1}
            # Beside numbers there are numbers.
            numbers = {
                path[0] for path in held if _ROLES.get(role(path[-1]) or "") in VALUES and path[-1] not in _LETTERS
            }
            made = self.kinds[0] in VALUES
            params = {a.name for a in required if made or (a.role == "params" and len(required) > 1)} - numbers
            for path in held:
                if path not in kinds and path[:1] not in kinds:
                    name = asked.called.get(path, path[-1])
                    alone = path[0] not in numbers and not self._means(name) and held[path] != "list"
                    among = weights.get(path[0], len(path) > 2 or path[0] in params or alone)
                    told_so = (*path[:-1], name)
                    kinds[path] = self._weight(told_so) if among else self._likely(name)[0]
                    if path in asked.weights and (len(kinds[path]) == 1 or not among):
                        kinds[path] = "WW"
            yield from self._completed(required, kinds, lengths)

    def _completed(self, required: Sequence[Argument], kinds: Mapping[Path, str], lengths: Lengths) -> Iterator[Guess]:
        """Calls with these kinds; what has none is what its name suggests, or a number."""
        rest = [a for a in required if not any(path[0] == a.name for path in kinds)]
        guesses = list(islice(self._first(), len(_FAMILIES))) if rest else [Guess((), lengths, self.dtypes[0])]
        numbers = ("2", "length", "number of heads", "side")
        guesses += [Guess(tuple(((a.name,), kind) for a in rest), lengths) for kind in numbers if rest]
        for first, dtype in product(guesses, (self.dtypes[0], *self.dtypes[-1:])):
            guess = Guess((), lengths, dtype)
            for a in required:
                inside = sorted((path for path in kinds if path[0] == a.name and len(path) > 1), key=len)
                told = self.told(a)
                told = told if told in VALUES or (told or "").startswith(_OWN) else None
                if inside and not (told or "").startswith(_OWN):
                    told = self.interface.read.of((a.name,)) or "dictionary"
                # Of nothing there is nothing to see.
                known = "lengths" if self.told(a) == "lengths" else kinds.get((a.name,), told)
                kind = known or dict(first.kinds)[a.name,]
                if is_floats(kind) and is_mask(self.told(a) or ""):
                    sort = "added" if self.interface.declared_mask() == "additive" else "mask"
                    kind = f"{sort} ({', '.join(kind)})"
                guess = guess.given((a.name,), kind)
                for path in inside if not kind.startswith(_OWN) else ():
                    for end in range(2, len(path)):
                        holder = self.interface.read.of(path[:end]) or "dictionary"
                        if dict(guess.kinds).get(path[:end]) != holder:
                            guess = guess.given(path[:end], holder)
                    guess = guess.given(path, kinds[path])
            yield guess

    def _numbers(self, told: dict[str, str | None]) -> Iterator[Guess]:
        """Numbers for a constructor: what names suggest, then others, the fewer changes first."""
        some = _NUMBERS[: 5 if len(told) < 4 else 3]
        choices = []
        for number, kind in enumerate(told.values()):
            rest = [*some[number % len(some) :], *some[: number % len(some)]]
            if len(told) < 3:
                # Of more, several are widths.
                rest.sort(key=lambda k: k in told.values())
            choices.append(list(dict.fromkeys([kind, *rest] if kind else rest)))
        ways = sorted(islice(product(*(range(len(c)) for c in choices)), 4096), key=lambda way: (sum(way), way))
        for number, way in enumerate(ways[:_WAYS]):
            kinds = [choice[n] for choice, n in zip(choices, way, strict=True)]
            for lengths in self.ladder if not number else self.ladder[:1]:
                guess = Guess((), lengths, self.dtypes[0])
                for name, kind in zip(told, kinds, strict=True):
                    guess = guess.given((name,), kind)
                yield guess

    def told(self, argument: Argument) -> str | None:
        """The kind, or the role in a family, that is said or that the name suggests, of those that can be."""
        said = self.interface.overrides.get(argument.name)
        if said is None and argument.name in self.interface.configs:
            return f"{_OWN} {self.interface.configs[argument.name]}"
        asked, path = self.interface.read, (argument.name,)
        arrays, hides = self.kinds[0] not in VALUES, argument.role in ("mask", "padding", "lengths", "positions")
        if said is None and arrays and not hides:
            # Rows are taken out of a table by numbers, and what is compared with itself counts something.
            if path in asked.tables and argument.role not in INPUTS:
                return "UW"
            if path in asked.indices | asked.compared:
                return "below 4: T" if path in asked.indices else "below 3: BT"
        part = next((kind for text, kind in _PARTS.items() if text in argument.name.lower()), None)
        role = said or argument.role or ""
        if role == "seed" and ("seed" not in argument.name or self.interface.description["backend"] == "jax"):
            return RANDOM
        for kind in (_ROLES.get(role), role if role in _FAMILIES[0] else None, part):
            if kind is not None and (kind in self.kinds or (kind in _FAMILIES[0] and self.kinds[0] not in VALUES)):
                return kind
        # What is annotated with a number's type is none of the arrays.
        plain = self.kinds[0] not in VALUES
        types: dict[str, str | None] = {"[Dd]ict": "dictionary", "Callable": "identity", "bool": "False"}
        types |= {"int": "number of heads" if plain else None, "float": "scale" if plain else "0.0"}
        types |= {"str": next(iter(self._texts), None)}
        for word, suggested in types.items():
            found = re.search(rf"\b{word}\b", argument.annotation)
            if found and suggested is not None and "Tensor" not in argument.annotation[: found.start()]:
                return suggested if suggested in self.kinds or suggested[:6] == "text: " else None
        return None

    @property
    def _texts(self) -> list[str]:
        """Texts that the code compares something with: what an argument may be."""
        return [f"text: {text}" for text in _compared(self.interface.description["source"])]

    def _changed(self, tried: Tried) -> Iterator[Guess]:
        """A guess with one thing changed: a length, what was asked for, one argument, the dtype, one argument more."""
        guess, error = tried.guess, tried.error or {}
        missing = error.get("missing")
        holders = [path for path, kind in guess.kinds if kind in _NAMED]
        if missing is not None and missing["called"] and holders:
            # What is called is a method, and what has it is an array.
            missing = None
        if missing is not None and (holders or missing["owner"] not in ("module", "NoneType")):
            kind = "dictionary" if missing["owner"] == "dict" else "config"
            owners = [path for path in holders if list(path) == missing.get("path", list(path))]
            owners = [path for path in owners if dict(guess.kinds)[path] == kind]
            if not owners:
                yield from (guess.given(path, kind) for path, k in guess.kinds if k != kind and self._free(path))
            taken = [k for _, k in guess.kinds]
            for path in owners:
                for kind in self._likely(missing["name"], taken):
                    yield guess.given((*path, missing["name"]), kind)
        others = (replace(guess, lengths=replace(lengths, more=guess.lengths.more)) for lengths in self.ladder)
        if error.get("raised"):
            # What it refuses itself is a length more often than a kind.
            yield from others
        if self.kinds[0] not in VALUES:
            yield from islice(self._mended(guess, error), _MENDED)
        yield from others
        # What lies in something else is changed before that.
        paths = [path for path, _ in guess.kinds if self._free(path)]
        paths.sort(key=lambda path: -len(path))
        # A number may be the length of any axis.
        letters = dict.fromkeys(letter for _, kind in guess.kinds for letter in axes_of(kind) if letter not in _PLAIN)
        numbers = [f"length of {letter}" for letter in letters if len(letter) == 1] if self.interface.makers else []
        kinds = [*self.kinds, *self._texts, *numbers]
        message = str(error.get("message", ""))
        wanted = {kind for word, some in _WANTED.items() if word in message for kind in some}
        rank = re.search(r"expected (\d)\b|(\d)-?[dD]\b", message)
        if rank is not None:
            wanted |= {kind for kind in _FLOATS if len(kind) == int(rank[1] or rank[2])}

        def ways(path: Path) -> list[Guess]:
            # Nothing holds what holds others, but names may.
            some = [kind for kind in kinds if len(path) == 1 or kind not in _HOLDERS[2:]]
            now = dict(guess.kinds)[path]
            if dict(guess.kinds).get(path[:-1], "")[:3] == "by ":
                # What makes something is given numbers.
                some = [*VALUES, *numbers] if now in VALUES or now[:10] == "length of " else []
            return [guess.given(path, k) for k in sorted(some, key=lambda k: (k not in wanted, _apart(now, k)))]

        for some in zip_longest(*(ways(path) for path in paths)):
            yield from (other for other in some if other is not None)
        yield from (replace(guess, dtype=dtype) for dtype in self.dtypes)
        for argument in self.interface.arguments:
            if argument.name not in guess.names:
                told = self.told(argument) or ""
                first = [_FAMILIES[0].get(told, told or "BTW")]
                yield from (guess.given((argument.name,), kind) for kind in dict.fromkeys([*first, *kinds]))

    def _mended(self, guess: Guess, error: Mapping[str, Any]) -> Iterator[Guess]:
        """What the failure asks for: whole numbers, another number of axes, another length where two did not fit."""
        message = str(error.get("message", ""))
        kinds = {path: kind for path, kind in guess.kinds if axes_of(kind) and self._free(path)}
        here = [path for path in kinds if ".".join(path) in error.get("arguments", ())]
        if re.search(_WHOLE_WANTED, message) and "only integers" not in message:
            for path in here or kinds:
                if is_floats(kinds[path]):
                    # Of words there is one number where a vector has many.
                    fewer = dict.fromkeys((kinds[path][:-1], kinds[path], kinds[path][:1]))
                    yield from (guess.given(path, f"below 4: {some}") for some in fewer if some)
        out_of_range = re.search(r"out of (range|bounds)", message)
        if out_of_range:
            for path in here or kinds:
                below = re.fullmatch(r"below (\d+): (\w+)", kinds[path])
                if below and int(below[1]) > 2:
                    yield guess.given(path, f"below 2: {below[2]}")
        if re.search(_BOOLEANS_WANTED, message):
            for path in here or kinds:
                if not is_mask(kinds[path]):
                    yield guess.given(path, f"mask ({', '.join(axes_of(kinds[path]))})")
        axis = re.search(r"range of \[-\d, \d\], but got (\d)|axis (\d) is out of bounds", message)
        if axis is not None:
            # It has at least one axis more than that.
            least = int(axis[1] or axis[2]) + 1
            for count in (least, least + 1):
                some = [kind for kind in _FLOATS if len(kind) == count and not set("PX3") & set(kind)][:4]
                yield from (guess.given(path, _with_axes(kinds[path], kind)) for path in here or kinds for kind in some)
        rank = re.search(
            r"expected (\d)[- ]?[dD]\b|(\d)-?[dD]\b|to unpack \(expected (\d+)|einstein.* (\d) dim", message
        )
        wanted = int(next(n for n in rank.groups() if n)) if rank else 0
        if wanted and error.get("unpacks") == "array":
            for path in here or kinds:
                yield self._resized(guess, path, 0, wanted)
        elif wanted:
            for path in here or kinds:
                likely = [kind for kind in _FLOATS if len(kind) == wanted and not set("PX3") & set(kind)]
                yield from (guess.given(path, _with_axes(kinds[path], kind)) for kind in likely[:6])
        if re.search(r"number of dim|dimension.*got \d and \d", message):
            # Words have fewer axes than vectors; what is given last may have one too many.
            for path in sorted(kinds, key=lambda path: is_floats(kinds[path])):
                axes = axes_of(kinds[path])
                less = [axes[:i] + axes[i + 1 :] for i in reversed(range(len(axes)))] if len(axes) > 1 else []
                yield from (guess.given(path, _with_axes(kinds[path], some)) for some in less)
        yield from self._fitted(guess, {path: kinds[path] for path in here} or kinds, message)

    def _fitted(self, guess: Guess, kinds: Mapping[Path, str], message: str) -> Iterator[Guess]:
        """Other lengths, of the numbers in a message: one of them is a length that was given, and another is wanted."""
        places = [(path, i, letter) for path, kind in kinds.items() for i, letter in enumerate(axes_of(kind))
                  if letter not in _PLAIN and len(letter) == 1]  # fmt: skip
        lengths = {letter: guess.lengths.axis(letter) for _, _, letter in places}
        pairs: list[tuple[int, int]] = []
        reshaped = re.search(r"shape '?[\[(]([-\d, ]+)[\])]'? is invalid for input of size (\d+)", message)
        numpy = re.search(r"array of size (\d+) into shape [\[(]([-\d, ]+)[\])]", message)
        if reshaped or numpy:
            shape, size = (reshaped[1], reshaped[2]) if reshaped else (numpy[2], numpy[1])  # type: ignore[index]
            sides = [int(n) for n in re.findall(r"-?\d+", shape)]
            whole, size = abs(prod(sides)) or 1, int(size)
            step = whole // gcd(whole, size)
            for length in dict.fromkeys(lengths.values()):
                if -1 in sides:
                    pairs += [(length, length * step)] if step < 32 else []
                elif length * whole % size == 0:
                    pairs.append((length, length * whole // size))
        else:
            numbers = list(dict.fromkeys(int(n) for n in re.findall(r"(?<![A-Za-wyz_.\d])\d{1,5}", message)))[:8]
            # An axis of 1 fits everything, and hides what can be wrong.
            yield from self._sided(guess, kinds, numbers)
            pairs = [(a, b) for a in numbers if a in lengths.values() for b in numbers if 1 < b != a]
            # What nobody gave is the candidate's own; and what did not fit stands together.
            pairs.sort(
                key=lambda pair: (pair[1] in lengths.values(), abs(numbers.index(pair[0]) - numbers.index(pair[1])))
            )
        for length, wanted in pairs:
            mine = [place for place in places if lengths[place[2]] == length]
            same = next((letter for letter, n in lengths.items() if n == wanted), None)
            if same is None:
                letters = dict.fromkeys(letter for _, _, letter in mine)
                yield from (replace(guess, lengths=guess.lengths.resized(letter, wanted)) for letter in letters
                            if letter in "BHTSDWGU" or not letter.isupper())  # fmt: skip
            for path, axis, _ in mine:
                if same is None:
                    yield self._resized(guess, path, axis, wanted)
                else:
                    # Two axes that have one length by accident hide what is wrong; one axis may be the other.
                    axes = list(axes_of(kinds[path]))
                    axes[axis] = same
                    yield guess.given(path, _with_axes(kinds[path], axes))

    def _sided(self, guess: Guess, kinds: Mapping[Path, str], numbers: Sequence[int]) -> Iterator[Guess]:
        """Other sides of an image, where as many positions as it has are named, and others are wanted."""
        for kind in kinds.values():
            axes = axes_of(kind)
            sides = next((i for i in range(len(axes) - 1) if axes[i : i + 2] == ("h", "w")), None)
            area = guess.lengths.axis("h") * guess.lengths.axis("w")
            if sides is None or area not in numbers:
                continue
            for wanted in numbers:
                height = max((n for n in range(1, int(wanted**0.5) + 1) if wanted % n == 0), default=1)
                if wanted != area and height > 1:
                    yield replace(guess, lengths=guess.lengths.resized("h", height).resized("w", wanted // height))

    def _resized(self, guess: Guess, path: Path, axis: int, length: int) -> Guess:
        """With a length of its own for one axis of one argument."""
        kind = dict(guess.kinds)[path]
        axes = list(axes_of(kind))
        axes[axis] = next(shapes.unseen("".join(letter for letter, _ in guess.lengths.more)))
        resized = replace(guess, lengths=guess.lengths.resized(axes[axis], length))
        return resized.given(path, _with_axes(kind, axes))

    def _free(self, path: Path) -> bool:
        return path[0] not in self.interface.overrides

    def _means(self, name: str) -> bool:
        """Whether a name says that something is no weight."""
        found = "params" if name in _LETTERS else role(name) or "params"
        return found != "params" and (found[0] not in "Wb" or found in ("base", "bias"))

    def _weight(self, path: Path) -> str:
        """What lies in something is multiplied with, or added, by its name and that of what it lies in."""
        mine = next((r for r in map(role, ("_".join(path[-2:]), path[-1])) if r and r[:1] == "W"), None)
        whole = _ROLES.get(mine or role("_".join(path[-2:])) or role(path[-2]) or "")
        last = path[-1].lower()
        if re.match(r"b(ias)?$|b_|beta|gamma|g$|scale|norm", last):
            return "P" if whole in ("WP", "P") else "W"
        if re.match(r"v(_.*)?$", last):
            # The vector of an additive score.
            return "W"
        return whole if whole in ("WP", "WW") else "WW"

    def _likely(self, name: str, taken: Sequence[str] = ()) -> tuple[str, ...]:
        """What is asked for by name, the likelier first: numbers that no other one is."""
        first = _ROLES.get(constructor_role(name) or "") if self.kinds[0] in VALUES else _ROLES.get(role(name) or "")
        if first is None and self.kinds[0] not in VALUES:
            first = _FAMILIES[0].get(role(name) or "")
        rest = sorted((k for k in self.kinds if self.kinds[0] not in VALUES or k in VALUES), key=lambda k: k in taken)
        return tuple(dict.fromkeys(kind for kind in (first, *rest) if kind is not None and kind in self.kinds))


def _laid(layout: str) -> dict[str, str]:
    """The kinds of inputs in a layout such as BHTD."""
    query = layout if "H" in layout else layout.replace("D", "W")
    key = query.replace("T", "S").replace("H", "G")
    return {"q": query, "k": key, "v": key, "x": query, "context": key}


def lettered(
    found: Mapping[Path, Shape], lengths: Lengths, named: Mapping[str, int]
) -> tuple[dict[Path, str], Lengths]:
    """Documented shapes as kinds: a letter for each word, with the length that its name has, or one of its own."""
    letters: dict[str, str] = {}
    lengths = replace(lengths, U=lengths.axis("U"))
    spare = shapes.unseen("")
    sizes: dict[str, int] = {}
    unlike = iter((6, 9, 11, 13, 10, 14, 15, 17))
    # Masks have axes that arrays have.
    for shape in sorted(found.values(), key=lambda shape: shape.sort in ("mask", "0 and 1")):
        sides = shapes.image(shape.axes)
        for place, axis in enumerate(shape.axes):
            if axis in letters:
                continue
            edges = re.fullmatch(shapes.EDGES, axis)
            known = DEGREE * lengths.T if edges else shapes.size(axis, {**sizes, **named})
            letter = axis if axis in _PLAIN else _letter(shape, place, sides, set(letters.values()))
            if letter is None or edges or (known is not None and (axis.isdigit() or not axis.isidentifier())):
                letter = axis if axis in _PLAIN else next(spare)
                known = known or next(unlike, 12)
            if known is not None and letter not in _PLAIN:
                lengths = lengths.resized(letter, known)
            letters[axis] = letter
            sizes[axis] = lengths.axis(letter)
    kinds: dict[Path, str] = {}
    for path, shape in found.items():
        axes = [letters[axis] for axis in shape.axes]
        if shape.sort == "whole" and re.fullmatch(shapes.EDGES, shape.axes[-1]):
            kinds[path] = "edges" if len(axes) > 1 else "targets" if "sources" in kinds.values() else "sources"
        elif shape.sort in ("mask", "0 and 1"):
            kinds[path] = f"{shape.sort} ({', '.join(axes)})"
        else:
            kinds[path] = "below 3: " * (shape.sort == "whole") + "".join(axes)
    return kinds, lengths


def _letter(shape: Shape, place: int, sides: tuple[int, int] | None, taken: set[str]) -> str | None:
    """The letter of an axis by its word and its place, of those that no other word has."""
    rank = len(shape.axes)
    axis = next(
        (letter for letter, words in AXIS_WORDS.items() if re.fullmatch(words, shape.axes[place].lower())), None
    )
    if place == 0 and rank > 2 and shape.axes[0] in ("n", "N"):
        axis = "B"
    likely: tuple[str, ...] = ()
    if sides is not None and place in sides:
        likely = ("h", "w")[sides.index(place) :][:1]
    elif axis == "B" or (place == 0 and rank > 2 and (axis is None or sides is not None)):
        likely = ("B",)
    elif sides is not None:
        likely = ("W", "U")
    elif axis == "H" and rank > 2 and place < rank - 1:
        likely = ("H", "G")
    elif place == rank - 1 and not shape.sort and rank > 1:
        likely = ("D", "W", "U") if rank > 3 and sides is None else ("W", "U")
    elif axis == "T" or place < rank - 1 or shape.sort:
        likely = ("S", "T") if shape.sort in ("mask", "0 and 1") and place == rank - 1 else ("T", "S")
    return next((letter for letter in likely if letter not in taken), None)


def _apart(one: str, two: str) -> tuple[bool, int]:
    """How much two kinds differ: whether they are of one sort, and axes of one that the other does not have."""
    sorts = (_WHOLE, VALUES, _FUNCTIONS, _HOLDERS)
    apart = not any(one in sort and two in sort for sort in sorts) and not (is_mask(one) and is_mask(two))
    if is_floats(one) and is_floats(two):
        return False, len(set(one) ^ set(two)) + abs(len(one) - len(two))
    return apart, 0


def _words(message: str) -> str:
    """What a message says without its numbers, but for the axis that it names."""
    return re.sub(r"(?<!dimension )(?<!axis )\d+", "", message)[:120]


def _compared(source: str) -> list[str]:
    try:
        nodes = list(ast.walk(ast.parse(source)))
    except (SyntaxError, ValueError):
        return []
    parts = [x for node in nodes if isinstance(node, ast.Compare) for x in (node.left, *node.comparators)]
    parts += [node.value for node in nodes if isinstance(node, ast.MatchValue)]
    parts += [x for node in parts if isinstance(node, ast.Tuple | ast.List | ast.Set) for x in node.elts]
    found = [x.value for x in parts if isinstance(x, ast.Constant) and isinstance(x.value, str)]
    return list(dict.fromkeys(text for text in found if text != "__main__"))[:6]
