"""Arguments that functions and classes of the module make, and what these are given."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from overt.check.calls.call import OWN, RANDOM, VALUES, Guess
from overt.check.calls.lettering import lettered
from overt.check.calls.likely import SUGGESTED, Likely
from overt.check.text import shapes
from overt.check.text.interface import Interface
from overt.check.text.roles import constructor_role, keeping
from overt.check.text.shapes import Path
from overt.check.text.syntax import parsed, walked

# What is said of a cache that has pages.
PAGED = r"page|block"
# What makes an array of a shape.
_FILLED = r"\b(zeros|ones|empty|full|randn?|normal)$"
# What a constructor is given first, where no name tells.
NUMBERS = ("width of all", "number of heads", "width of a head", "length", "another width")
# Numbers that are lengths of axes.
COUNTED = {"width of all": "W", "number of heads": "H", "width of a head": "D", "number of key heads": "G"}


@dataclass
class Supplied(Likely):
    """Guesses with what makers of the module make."""

    def _by_itself(self, guess: Guess) -> Guess:
        """With what is made of the numbers that its makers have unless they are told, and arrays of these lengths."""
        kinds, kept = dict(guess.kinds), []
        sizes: dict[str, int] = {}
        for path, kind in guess.kinds:
            makers = [m for m in self.interface.makers.get(path[0], ()) if kinds[path[:1]] == f"by {m['name']}"]
            rows = [row for m in makers for row in m["parameters"] if len(path) == 2 and row["name"] == path[1]]
            own = rows[0].get("default") if rows else None
            letter = COUNTED.get(kind) or kind.removeprefix("length of ")
            if type(own) is not int:
                kept.append((path, kind))
            elif len(letter) == 1:
                # Of a width, what is narrower is a head's.
                sizes[letter] = max(own, sizes.get(letter, 0))
        lengths = guess.lengths
        for letter, n in sorted(sizes.items()):
            lengths = lengths.resized(letter, n)
        return replace(guess, kinds=tuple(kept), lengths=lengths)

    def _by(self, guess: Guess, path: Path, maker: Mapping[str, Any], depth: int) -> Guess:
        """With what a maker makes at one place, of numbers that names suggest, or of arguments of the same names."""
        guess = guess.given(path, f"by {maker['name']}")
        mine = Interface({**self.interface.description, "source": maker["source"], "doc": ""}, maker["parameters"], {})
        told = shapes.shapes(mine.shaped, [a.name for a in mine.arguments], alone=False)
        # What is a number has no shape.
        types = re.compile(r"\b(int|float|bool)\b")
        numbers = {
            (a.name,) for a in mine.arguments if types.search(a.annotation) or type(a.default) in (int, float, bool)
        }
        words = {word: letter for word in self._words if (letter := self._axis(word, guess.lengths)) is not None}
        told = {
            here: replace(shape, sort="ends") if self._ends((*path, *here)) else shape
            for here, shape in told.items()
            if len(here) == 1 and here not in numbers
        }
        kinds, lengths = lettered(told, guess.lengths, {}, words)
        guess = replace(guess, lengths=lengths)
        claimed = {self._axis(a.name, lengths) for a in mine.arguments}
        # What counts heads by its use, and what that divides.
        heads = mine.read.heads
        wide = set().union(*(mine.read.divided.get(path, ()) for path in heads))
        # What stands beside a number of heads in one shape is the width of one.
        filled = [x for x in walked(parsed(maker["source"])) if isinstance(x, ast.Call)
                  and re.search(_FILLED, ast.unparse(x.func))]  # fmt: skip
        axes = [x.args for x in filled]
        axes += [x.elts for one in filled for x in ast.walk(one) if isinstance(x, ast.Tuple | ast.List)]
        # Or such a shape has a name.
        made = (x.value for x in walked(parsed(maker["source"])) if isinstance(x, ast.Assign) and len(x.targets) == 1
                and isinstance(x.targets[0], ast.Name))  # fmt: skip
        axes += [x.elts for x in made if isinstance(x, ast.Tuple)]
        laid = [[x.id for x in some if isinstance(x, ast.Name)] for some in axes if len(some) > 2]
        one_head = {
            name for some in laid if any(constructor_role(x) in ("heads", "groups") for x in some) for name in some
        }
        for a in mine.arguments:
            here = (*path, a.name)
            # As many words as there are, whatever the length is.
            means = constructor_role(a.name) or ""
            kind = "another width" if means == "vocab" else SUGGESTED.get(means)
            if not means and (a.required or type(a.default) is int):
                kind = "number of heads" if (a.name,) in heads else "width of all" if (a.name,) in wide else None
            if kind == "width of all" and a.name in one_head:
                kind = "width of a head"
            inner = next((m for m in mine.makers.get(a.name, ()) if m["class"]), None)
            # What has a number unless it is told is no array of the same name.
            other = a.name != path[0] and dict(guess.kinds).get((a.name,), "")[:3] != "by "
            if re.search(rf"\bself\.{a.name}\[[^\]]*[\"']", maker["source"]):
                # It holds others by texts.
                guess = guess.given(here, "dictionary")
            elif a.name in guess.names and other and (a.name,) not in kinds and type(a.default) is not int:
                guess = guess.given(here, f"like {a.name}")
            elif not a.required and (kind not in (*NUMBERS, "number of key heads") or type(a.default) is not int):
                continue
            elif not a.required and kind == "width of all" and "W" in claimed and not self._axis(a.name, lengths):
                # That width is another one's.
                continue
            elif a.name in mine.configs:
                guess = guess.given(here, f"{OWN} {mine.configs[a.name]}")
            elif a.role == "seed":
                guess = guess.given(here, "0" if "seed" in a.name else RANDOM)
            elif re.search(r"rray|ensor", a.annotation) and (a.name,) not in kinds:
                beside = "w" + a.name if {"q", "k"} & {other.name for other in mine.arguments} else a.name
                some = self._weight((*path, beside))
                guess = guess.given(here, "WW" if here in self.interface.read.weights and len(some) == 1 else some)
            elif (a.name,) in kinds:
                guess = guess.given(here, kinds[a.name,])
            elif (axis := self._axis(a.name, lengths)) is not None:
                guess = guess.given(here, f"length of {axis}")
            elif (keeps(maker) or "pages" in guess.by_name.values()) and re.search(PAGED, a.name):
                many = "length of N" if keeps(maker) else "length of n"
                guess = guess.given(here, "length of a page" if re.search(r"size|len", a.name) else many)
            elif inner is not None and depth < 2:
                guess = self._by(guess, here, inner, depth + 1)
            elif re.search(rf"\b(zeros|empty|ones|full)\([^\n]*\b{a.name}\b", maker["source"]) and kind == "2":
                # A cap is that of what there is room for.
                guess = guess.given(here, "length")
            elif kind in VALUES:
                guess = guess.given(here, kind)
            else:
                given = [k for p, k in guess.kinds if p[:-1] == path]
                # What a layer wants first is how wide it is.
                heads_first = (depth or maker["class"]) and not ("layer" in maker and "width of all" not in given)
                whole = "number of heads" if heads_first else "width of all"
                guess = guess.given(here, "1.0" if "float" in a.annotation else whole)
        return guess


def keeps(maker: Mapping[str, Any]) -> bool:
    """Whether what is made keeps keys and values by names, by a method that takes these."""
    told = re.findall(r"def \w+\(self, ([^()]*)\)", maker["source"])
    return any(keeping([part.partition(":")[0].strip() for part in some.split(",")]) for some in told)
