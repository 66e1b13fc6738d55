"""Instances of a class, made of numbers that are found by trying, and the lengths of what they may be called with."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

from overt.check.calls import call as calls
from overt.check.calls.call import Guess, Lengths, Tried
from overt.check.calls.search import Search
from overt.check.process.session import Here, Session
from overt.check.text.interface import Interface
from overt.check.text.roles import constructor_role
from overt.check.varied import beside

# Instances, and constructors that are tried.
_MADE, _BUILT = 16, 360


def instances(
    session: Session | Here,
    face: Interface,
    maker: beside.Made,
    failed: list[Tried],
    ladder: Sequence[Lengths],
) -> Iterator[tuple[int | None, Sequence[Lengths], dict[str, int]]]:
    """Handles of instances, or None for a function; the lengths that it may be called with, and numbers with names."""
    kind = face.description["kind"]
    if kind == "function":
        # Weights of its module have widths, as those of an instance have.
        names = [name for name in face.description["globals"] if name not in face.misread]
        _, arrays = session.ask({"op": "globals", "names": names}) if names else ({}, {})
        shapes = [x.shape for x in arrays.values() if x.dtype.kind == "f"]
        # So have those that stand in a configuration of its module.
        held = {name: n for i in face.configs.values() for name, n in face.description["configs"][i]["numbers"].items()}
        shapes += [(n, n) for n in held.values() if 4 < n < 512]
        lengths = _lengths({"shapes": shapes, "numbers": held}, None, ladder) if shapes else ladder
        lengths = [_configured(n, held) for n in lengths] if len(ladder) > 1 else ladder
        yield None, lengths, _whole(face.description["numbers"]) | _defaults(face) | held
        return
    made: dict[Guess, dict[str, Any]] = {}

    def build(guesses: Sequence[Guess]) -> list[dict[str, Any]]:
        replies = []
        for guess in guesses:
            made[guess] = maker.build(guess)
            replies.append(made[guess])
        return replies

    if maker.maker is None:
        reply, _ = session.ask({"op": "build", "seed": 1})
        if "error" not in reply:
            yield reply["handle"], _lengths(reply, None, ladder), _whole(reply["numbers"])
        return
    search = Search(session, maker.maker, build, _divisible(ladder, maker.maker), calls.NUMBERS, ("float64",), _BUILT)
    known: list[Any] = []
    for some in chain(search.run(), _alike(maker.maker, made, build)):
        for tried in some:
            reply = made[tried.guess]
            like = reply["shapes"], reply["numbers"]
            if like not in known and len(known) < _MADE:
                known.append(like)
                given = {p[-1]: calls.VALUES[k](tried.guess.lengths) for p, k in tried.guess.kinds if k in calls.VALUES}
                named = _defaults(maker.maker) | _whole(reply["numbers"]) | _whole(given)
                yield reply["handle"], _lengths(reply, tried.guess.lengths, ladder, bool(given)), named
        if len(known) >= _MADE or (known and len(search.tried) >= calls.BATCH * 2):
            break
    failed += [tried for tried in search.tried if tried.error is not None]


def _alike(
    face: Interface, made: Mapping[Guess, Any], build: Callable[[Sequence[Guess]], list[dict[str, Any]]]
) -> Iterator[list[Tried]]:
    """One instance all of whose widths are the same, where it has several unless it is told."""
    widths = {a.name: a.default for a in face.arguments if not a.required and type(a.default) is int
              and a.default > 1 and constructor_role(a.name) in ("model_dim", "att_dim")}  # fmt: skip
    first = next((guess for guess, reply in made.items() if "error" not in reply), None)
    if first is not None and len({*widths.values()}) > 1:
        for name in widths:
            first = first.given((name,), "width of all")
        yield [Tried(first, reply) for reply in build([first]) if "error" not in reply]


def _configured(lengths: Lengths, numbers: Mapping[str, int]) -> Lengths:
    """Heads as many, and as wide, as a configuration says, and all as wide as it says first."""
    letters = {"heads": "H", "groups": "G", "head_dim": "D", "model_dim": "W"}
    told = {letters[one]: n for name, n in [*numbers.items()][::-1] if (one := constructor_role(name)) in letters}
    if {"H", "W"} <= {*told} and told["W"] % told["H"] == 0:
        told.setdefault("D", told["W"] // told["H"])
    return replace(lengths, **told) if "D" in told or {"G", "H"} <= {*told} else lengths  # type: ignore[arg-type]


def _divisible(ladder: Sequence[Lengths], face: Interface) -> Sequence[Lengths]:
    """First the lengths whose width can be divided by the heads that a constructor has unless it is told."""
    heads = [n for name, n in _defaults(face).items() if constructor_role(name) == "heads"]
    return sorted(ladder, key=lambda lengths: any(lengths.W % n for n in heads))


def _defaults(face: Interface) -> dict[str, int]:
    """Numbers that arguments have unless they are given, and those that what they have then holds."""
    held = {name: n for a in face.arguments for name, n in a.held.items()}
    return _whole(held | {a.name: a.default for a in face.arguments})


def _whole(numbers: dict[str, Any]) -> dict[str, int]:
    """Of numbers by their names those that may be lengths."""
    return {name: n for name, n in numbers.items() if type(n) is int and 0 < n < 512}


def _lengths(
    reply: dict[str, Any], built: Lengths | None, ladder: Sequence[Lengths], sized: bool = False
) -> Sequence[Lengths]:
    """Lengths that fit an instance: widths are sides of its matrices, and any number that it holds may be a length.

    sized: whether it was built of numbers that follow from the lengths.
    """
    if len(ladder) == 1:
        # They were given.
        return ladder
    sides = [n for shape in reply["shapes"] if len(shape) > 1 for n in shape if n > 1]
    # Of a packed projection, what goes in is narrower.
    widths = sorted(dict.fromkeys(sides), key=lambda n: (-sides.count(n), n)) or [built.W if built else 12]
    if built is not None:
        # What several inputs side by side are multiplied with has a multiple of their width.
        widths += [built.W] * (sized and built.W not in widths and any(width % built.W == 0 for width in widths))
        widths.sort(key=lambda width: width != built.W)
    named = reply["numbers"].items()
    held = [int(n) for _, n in named if 1 < n < 200 and n == int(n)]
    sizes = dict.fromkeys(
        [5, *held, *(n * n for n in held if n < 20), *(n for n in sides if n < 200),
                           *(n - 1 for n in sides if 2 < n < 200), 8, 16, 49, 64])  # fmt: skip
    found = []
    told = [int(n) for name, n in named if constructor_role(name) == "heads" and n == int(n) > 1]
    for width in widths[:3]:
        heads = next((n for n in held if width % n == 0 and n < width), 1)
        if built is not None and built.H in told:
            # What has heads by that name has them beside any width.
            heads = built.H
        elif built is not None and width % built.H == 0:
            # It may have others unless it is told.
            heads = next((n for n in told if width % n == 0), built.H)
        each = width // heads if width % heads == 0 else width
        # What is as wide as nothing else here may be two widths one after the other.
        others = dict.fromkeys([*(n for n in widths if n != width), 2 * width])
        found += [Lengths(2, heads, 5, S, each, width, U=other) for other in others for S in (7, 5)]
        found += [Lengths(2, heads, n, n, each, width) for n in sizes]
    found.sort(key=lambda n: (widths[0] != n.W, n.T != 5, n.S == 5, n.U != 2 * n.W))
    return found[:32]
