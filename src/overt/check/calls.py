"""A call that works, by trying: what each argument may be is a hypothesis, names order them, and running settles it.

The search climbs: of the calls tried, the one that came furthest in the candidate's own code is changed, one argument
at a time.  A call that fails proves nothing about the candidate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from overt.check.interface import Interface
from overt.check.session import Here, Session

Spec = dict[str, Any]


@dataclass(frozen=True)
class Lengths:
    """The axes of one call: batch, heads, queries, keys, width of a head, and of all."""

    B: int = 2
    H: int = 4
    T: int = 8
    S: int = 8
    D: int = 16
    W: int = 64

    def axis(self, letter: str) -> int:
        """The length of an axis; lower case letters are made of others."""
        side = round(self.T**0.5)
        own = {"h": side, "w": side, "3": 3 * self.W, "2": self.D // 2, "1": 1, "N": self.B * self.T, "F": self.W}
        return own[letter] if letter in own else int(getattr(self, letter))

    def __str__(self) -> str:
        return f"batch {self.B}, heads {self.H}, {self.T} queries, {self.S} keys, width {self.W}"


# Few and odd first, then what code wants that counts in blocks, windows or lanes.
LADDER = (
    Lengths(2, 3, 5, 7, 4, 12),
    Lengths(2, 3, 5, 5, 4, 12),
    Lengths(2, 4, 8, 8, 8, 32),
    Lengths(2, 4, 16, 16, 16, 64),
    Lengths(2, 4, 49, 49, 16, 64),
    Lengths(2, 8, 64, 64, 16, 128),
)
# Rounds of a search that came no further.
_STUCK = 4
AXES = ("B", "H", "T", "S", "D", "W")


def ladder(sizes: Mapping[str, int] | None) -> Sequence[Lengths]:
    """The lengths to try, or those that somebody gave and what follows from them."""
    if sizes is None:
        return LADDER
    found = dict(sizes)
    H = found.setdefault("H", 4)
    found.setdefault("D", found["W"] // H if "W" in found else 16)
    found.setdefault("W", H * found["D"])
    found.setdefault("S", found.get("T", 8))
    return (Lengths(**found),)


# What an argument may be: arrays of numbers by their axes, arrays of other things, and values.
_FLOATS = ("BTW", "BSW", "BHTD", "BHSD", "BTHD", "BSHD", "TW", "SW", "BW", "W", "BWhw", "BWT", "TBW", "SBW", "HTD",
           "HSD", "THD", "NHD", "BT3", "1BW", "BHTS", "HTS", "TD", "T2", "WW", "W3")  # fmt: skip
_OTHERS: dict[str, Callable[[Lengths, np.random.Generator], np.ndarray]] = {
    "mask (T, S)": lambda n, r: np.tri(n.T, n.S, n.S - n.T, dtype=bool),
    "mask (B, S)": lambda n, r: np.arange(n.S) < np.linspace(n.S - 1, n.S, n.B).astype(int)[:, None],
    "mask (B, 1, T, S)": lambda n, r: np.broadcast_to(np.tri(n.T, n.S, n.S - n.T, dtype=bool), (n.B, 1, n.T, n.S)),
    "mask (B, 1, 1, S)": lambda n, r: _OTHERS["mask (B, S)"](n, r)[:, None, None],
    "added (T, S)": lambda n, r: np.where(np.tri(n.T, n.S, n.S - n.T, dtype=bool), 0.0, -np.inf),
    "lengths": lambda n, r: np.linspace(n.S - 1, n.S, n.B).astype(int),
    "tokens": lambda n, r: r.integers(0, 4, (n.B, n.T)),
    "one token": lambda n, r: r.integers(0, 4, n.B),
    "positions": lambda n, r: np.arange(n.T),
    "bounds": lambda n, r: np.arange(n.B + 1, dtype=np.int32) * n.T,
    "turns": lambda n, r: np.exp(1j * np.arange(n.T)[:, None] * 0.3 ** np.arange(n.D // 2)),
    "cosines": lambda n, r: np.cos(np.arange(n.T)[:, None] * 0.3 ** (np.arange(n.D) % (n.D // 2))),
    "sines": lambda n, r: np.sin(np.arange(n.T)[:, None] * 0.3 ** (np.arange(n.D) % (n.D // 2))),
    "half cosines": lambda n, r: np.cos(np.arange(n.T)[:, None] * 0.3 ** np.arange(n.D // 2)),
    "half sines": lambda n, r: np.sin(np.arange(n.T)[:, None] * 0.3 ** np.arange(n.D // 2)),
}  # fmt: skip
VALUES: dict[str, Callable[[Lengths], Any]] = {
    "width of all": lambda n: n.W,
    "number of heads": lambda n: n.H,
    "width of a head": lambda n: n.D,
    "length": lambda n: n.T,
    "side": lambda n: round(n.T**0.5),
    "0": lambda n: 0,
    "1": lambda n: 1,
    "0.0": lambda n: 0.0,
    "1.0": lambda n: 1.0,
    "scale": lambda n: n.D**-0.5,
    "False": lambda n: False,
    "True": lambda n: True,
    "None": lambda n: None,
    "pair of sides": lambda n: (round(n.T**0.5),) * 2,
}
KINDS = (*_FLOATS, *_OTHERS, *VALUES)
# The kinds that each role of a name suggests, by family: how the arrays of one call lie together.
_FAMILIES: tuple[dict[str, str], ...] = (
    {"q": "BHTD", "k": "BHSD", "v": "BHSD", "x": "BTW", "context": "BSW"},
    {"q": "BTW", "k": "BSW", "v": "BSW", "x": "BHTD", "context": "BHSD"},
    {"q": "BTHD", "k": "BSHD", "v": "BSHD", "x": "BWhw", "context": "BWhw"},
    {"q": "TW", "k": "SW", "v": "SW", "x": "TW", "context": "SW"},
    {"q": "BW", "k": "BSW", "v": "BSW", "x": "BW", "context": "BSW"},
    {"q": "NHD", "k": "NHD", "v": "NHD", "x": "TBW", "context": "SBW"},
)
_ROLES = {
    "mask": "mask (T, S)", "padding": "mask (B, S)", "lengths": "lengths", "heads": "number of heads", "qkv": "BT3",
    "groups": "number of heads", "model_dim": "width of all", "att_dim": "width of all", "head_dim": "width of a head",
    "length": "length", "key_length": "length", "window": "side", "drop": "0.0", "causal": "False", "training": "False",
    "scale": "scale", "temperature": "1.0", "offset": "0", "seed": "0", "cache": "None", "positions": "positions",
    "cos": "cosines", "sin": "sines", "repeats": "1", "vocab": "length", "bias": "BHTS", "first": "True",
    "config": "config", "Wq": "WW", "Wk": "WW", "Wv": "WW", "Wo": "WW", "Wqkv": "W3",
    "bq": "W", "bk": "W", "bv": "W", "bo": "W",
}  # fmt: skip


# Parts of names that no role has, and what goes by them.
_PARTS = {"freq": "turns", "cu_": "bounds", "rot": "turns"}


@dataclass(frozen=True)
class Guess:
    """What each argument is taken for, by name; the lengths of the axes; and the width of numbers."""

    kinds: tuple[tuple[str, str], ...]
    lengths: Lengths
    dtype: str = "float64"
    # names that a configuration object was asked for, and what they are taken for
    inner: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = ()

    def __str__(self) -> str:
        return ", ".join(f"{name}: {kind}" for name, kind in self.kinds) + f" ({self.lengths}, {self.dtype})"


@dataclass(frozen=True, eq=False)
class Tried:
    """A guess and what came of it."""

    guess: Guess
    reply: dict[str, Any]

    @property
    def error(self) -> dict[str, Any] | None:
        return self.reply.get("error")

    @property
    def reached(self) -> tuple[int, int]:
        """How far it came in the candidate's own code: the line, and how many names of a configuration it read."""
        line = 1 << 30 if self.error is None else int(self.error.get("reached") or 0)
        return line, sum(len(names) for _, names in self.guess.inner)

    def __str__(self) -> str:
        told = "it runs" if self.error is None else f"{self.error['type']}: {self.error['message'][:100]}"
        return f"{self.guess}: {told}"


def specs(guess: Guess, interface: Interface, prefix: str = "") -> tuple[list[Spec], dict[str, Spec], dict[str, Any]]:
    """The arguments of a guess, those by position and those by name, and the arrays that they point to."""
    arrays: dict[str, np.ndarray] = {}
    args: list[Spec] = []
    kwargs: dict[str, Spec] = {}
    kinds, inner = dict(guess.kinds), dict(guess.inner)
    random = np.random.default_rng(0)

    def spec(name: str, kind: str) -> Spec:
        if kind == "config":
            return {"config": {n: VALUES[k](guess.lengths) for n, k in inner.get(name, ())}}
        if kind in VALUES:
            return {"value": VALUES[kind](guess.lengths)}
        key = f"{prefix}{name}"
        if kind in _OTHERS:
            arrays[key] = np.ascontiguousarray(_OTHERS[kind](guess.lengths, random))
        else:
            shape = tuple(guess.lengths.axis(letter) for letter in kind)
            # Of weights, the numbers are small.
            arrays[key] = random.normal(size=shape) * (guess.lengths.W**-0.5 if kind[0] == "W" and len(kind) > 1 else 1)
        return {"array": key}

    positional = True
    for argument in interface.arguments:
        if argument.name not in kinds:
            positional = False
        elif (positional and argument.kind != "keyword") or argument.kind == "position":
            args.append(spec(argument.name, kinds[argument.name]))
        else:
            kwargs[argument.name] = spec(argument.name, kinds[argument.name])
    return args, kwargs, arrays


@dataclass
class Search:
    """Calls of one function, one instance or one constructor."""

    session: Session | Here
    interface: Interface
    # makes the request for many guesses, and gives a reply for each
    ask: Callable[[Sequence[Guess]], list[dict[str, Any]]]
    ladder: Sequence[Lengths] = LADDER
    kinds: Sequence[str] = (*KINDS, "config")
    dtypes: Sequence[str] = ("float64", "float32", "bfloat16", "float16")
    rounds: int = 24
    tried: list[Tried] = field(default_factory=list)
    _known: set[Guess] = field(default_factory=set)

    def run(self) -> Iterator[Tried]:
        """Guesses that run, the likelier first; each round changes those that came furthest."""
        yield from self._try(list(self._first()))
        reached: list[tuple[int, int]] = []
        for _ in range(self.rounds):
            failed = [t for t in self.tried if t.error is not None]
            if not failed:
                return
            # Those that came furthest, one of each error; four rounds without getting further are enough.
            far = sorted(failed, key=lambda t: t.reached, reverse=True)
            reached.append(far[0].reached)
            if len(reached) > _STUCK and reached[-1] <= reached[-1 - _STUCK]:
                return
            best = list({(t.reached, (t.error or {})["message"]): t for t in reversed(far[:40])}.values())[-2:]
            before = len(self.tried)
            yield from self._try([guess for tried in best for guess in self._changed(tried)])
            if len(self.tried) == before:
                return

    def _try(self, guesses: Sequence[Guess]) -> list[Tried]:
        new = [g for g in dict.fromkeys(guesses) if g not in self._known]
        self._known |= set(new)
        made = [Tried(guess, reply) for guess, reply in zip(new, self.ask(new) if new else [], strict=True)]
        self.tried += made
        return [tried for tried in made if tried.error is None]

    def _first(self) -> Iterator[Guess]:
        """One guess a family and a size, with the roles that names suggest; nameless arrays are inputs in order."""
        required = [a for a in self.interface.arguments if a.required]
        unknown = [a.name for a in required if a.role not in _ROLES and a.role not in _FAMILIES[0]]
        unknown.sort(key=lambda name: any(text in name.lower() for text in _PARTS))
        values = [kind for kind in VALUES if kind in self.kinds and self.kinds[0] in VALUES]
        inputs = {1: ("x",), 2: ("q", "context"), 3: ("q", "k", "v")}.get(len(unknown), ("q", "k", "v", "x"))
        roles = {name: inputs[min(n, len(inputs) - 1)] for n, name in enumerate(unknown)}
        # A constructor takes numbers.
        numbers = {name: values[n % len(values)] for n, name in enumerate(unknown) if values}
        for lengths in self.ladder:
            for family in _FAMILIES:
                kinds = []
                for a in required:
                    if a.name in numbers:
                        kinds.append((a.name, numbers[a.name]))
                        continue
                    role = roles.get(a.name) or a.role or "x"
                    part = next((kind for text, kind in _PARTS.items() if text in a.name.lower()), None)
                    if part is not None and a.name in roles:
                        kinds.append((a.name, part))
                        continue
                    told = self.interface.overrides.get(a.name)
                    kinds.append((a.name, _ROLES.get(told or role) or family[told if told in family else role]))
                yield Guess(tuple(kinds), lengths, self.dtypes[0])

    def _changed(self, tried: Tried) -> Iterator[Guess]:
        """A guess with one argument changed, or all of one dtype; a configuration with one name more."""
        guess, error = tried.guess, tried.error or {}
        missing = error.get("missing")
        if missing is not None:
            inner = dict(guess.inner)
            kinds = dict(guess.kinds)
            for name, kind in guess.kinds:
                if kind == "config" or "config" not in kinds.values():
                    kinds[name] = "config"
                    known = [n for n, _ in inner.get(name, ())]
                    for value in _likely(missing["name"], [kind for _, kind in inner.get(name, ())]):
                        if missing["name"] not in known:
                            told = (*inner.get(name, ()), (missing["name"], value))
                            yield replace(guess, kinds=tuple(kinds.items()), inner=tuple({**inner, name: told}.items()))
        for name, told in guess.inner:
            for number, (attribute, _) in enumerate(told):
                for value in _likely(attribute):
                    other = (*told[:number], (attribute, value), *told[number + 1 :])
                    yield replace(guess, inner=tuple({**dict(guess.inner), name: other}.items()))
        for number, (name, _) in enumerate(guess.kinds):
            if name not in self.interface.overrides:
                for kind in self.kinds:
                    yield replace(guess, kinds=(*guess.kinds[:number], (name, kind), *guess.kinds[number + 1 :]))
        yield from (replace(guess, dtype=dtype) for dtype in self.dtypes)
        yield from (replace(guess, lengths=lengths) for lengths in self.ladder)


def _likely(name: str, taken: Sequence[str] = ()) -> tuple[str, ...]:
    """What an attribute of a configuration may be, the likelier first: numbers that no other one is."""
    from overt.check.instances import _constructor_role

    first = _ROLES.get(_constructor_role(name) or "")
    rest = sorted(VALUES, key=lambda kind: kind in taken)
    return tuple(dict.fromkeys(kind for kind in (first, *rest) if kind in VALUES))
