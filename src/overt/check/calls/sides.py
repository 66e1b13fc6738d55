"""Sides of maps that one argument holds: those of one map, or of several levels, one smaller than the other."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from math import prod

from overt.check.calls.call import Lengths
from overt.check.text.read import Read
from overt.check.text.shapes import Path, Shape

# Sides that poolings and strides divide, no two alike.
_SIDES = (4, 6, 8)
# So many levels at most, and the numbers of them that are tried.
_LEVELS, _TRIED = 8, 3

# Sides by the arguments that hold them, the lengths of axes that are made of them, and of an axis that may be.
Sided = tuple[dict[Path, str], dict[str, int], dict[str, int]]


def sided(found: Mapping[Path, Shape], asked: Read, named: Mapping[str, int]) -> Iterator[Sided]:
    """What arguments that hold sides may be given, the likelier first, and at last none where only words say so.

    found: documented shapes; named: numbers that an instance was made with, of which one may be that of its levels.
    """
    words = {owner[:1]: tuple(asked.called.get(p, p[-1]) for p in inside) for owner, inside in _taken(asked).items()}
    levels = {owner[:1] for owner in _taken(asked) if owner[1:]}
    axes = [axis for shape in found.values() for axis in shape.axes if not axis.isidentifier()]
    parts = {word for axis in axes for word in re.findall(r"[^\W\d]\w*", axis)}
    said = {path: shape.axes for path, shape in found.items()
            if shape.sort in ("", "whole") and 1 < len(shape.axes) <= len(_SIDES) and path not in asked.sized | levels
            and not any(axis.isdigit() for axis in shape.axes) and {*shape.axes} <= parts}  # fmt: skip
    single = {path: own for path, own in {**words, **said}.items() if path not in levels}
    lengths = {axis: n for own in single.values() for axis, n in zip(own, _SIDES, strict=False)}
    kinds = {path: f"sizes {tuple(lengths[axis] for axis in own)}" for path, own in single.items()}
    # What is an axis of something may be as many as there are levels.
    among = {axis for shape in found.values() for axis in shape.axes}
    many = [n for name, n in sorted(named.items(), key=lambda item: item[0] not in among) if 1 < n <= _LEVELS]
    for count in dict.fromkeys([*many, 2][:_TRIED] if levels else [0] if single else []):
        pyramid = [tuple(max(1, n >> level) for n in _SIDES[: len(words[p])]) for p in levels for level in range(count)]
        total = sum(map(prod, pyramid))
        sums = {axis: total for axis in axes if levels and re.match(r"sum|Σ", axis.lower())}
        for length in ({},) if sums or not levels else ({"S": total}, {"T": total}):
            yield kinds | dict.fromkeys(levels, f"sizes {pyramid}"), lengths | sums, length
    if not words:
        yield {}, {}, {}


def longer(lengths: Lengths, by: Mapping[str, int]) -> Lengths:
    """Lengths of which some are others."""
    for letter, length in by.items():
        lengths = lengths.resized(letter, length)
    return lengths


def _taken(asked: Read) -> dict[Path, list[Path]]:
    """What is taken apart into nothing but sides, by what holds them: an argument, or each of those that it lists."""
    owners = {path[:-1] for path in asked.held if len(path) > 1 and path[-1].isdigit()}
    inside = {owner: sorted(path for path in asked.held if path[:-1] == owner) for owner in owners}
    return {owner: some for owner, some in inside.items()
            if 1 < len(some) <= len(_SIDES) and {*some} <= asked.sides and owner[1:] in ((), ("0",))}  # fmt: skip
