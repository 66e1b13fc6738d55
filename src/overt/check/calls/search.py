"""A call that works, by trying: what each argument may be is a hypothesis, names order them, and running settles it.

What documentation gives as shapes is tried first.  From there the search is best-first: of the calls tried, the one
that came furthest in the candidate's own code is changed until one comes further, first by what its failure asks for.
A call that fails proves nothing about the candidate.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass, replace
from itertools import chain, islice, zip_longest
from typing import Any

from overt.check.calls.call import (
    BATCH,
    FLOATS,
    FUNCTIONS,
    HOLDERS,
    MASKS,
    NAMED,
    OTHERS,
    PLAIN,
    VALUES,
    WHOLE,
    Guess,
    Tried,
    axes_of,
    is_floats,
    is_mask,
    mixed,
)
from overt.check.calls.likely import FAMILIES
from overt.check.calls.mending import mended, wants_whole
from overt.check.calls.suggesting import Suggestions
from overt.check.text.roles import Argument
from overt.check.text.shapes import Path

_COMPILED = 8
_TURNS = (0, 0, 1, 0, 0, 2, 0, 1, 3)
# What a failure asks for, as far as it is likely.
_MENDED = 10
# Ways to give one argument more.
_WITH = 3
# Calls that are tried with narrower numbers before others.
_NARROW = 4
# Changes of what is documented that are tried at once, where it has words that it does not call so.
_WORDS = 3
# Numbers of one call; the memory of all that are sent at once is theirs too.
_MOST = 1 << 21
# Numbers of a call that is only looked into where no smaller one runs.
_LARGE = 1 << 16
# Changes that were tried already, one after the other, before another call is changed.
_STALE = 1000
# Words of what a library raises, and what it wants there.
_WANTED = {
    "integer": VALUES, "an index": VALUES, "int object": VALUES, "not callable": FUNCTIONS, "string": HOLDERS,
    "list of": HOLDERS, "must be Tensor": FLOATS, "unpack": HOLDERS, "subscriptable": HOLDERS, "indices": HOLDERS,
    "NoneType": (*FLOATS, *MASKS, *OTHERS), "mask": MASKS, "bool": MASKS, "Long": WHOLE,
}  # fmt: skip
# The last words of what weights are called.
_WEIGHTS = r"(weights?|bias|kernel|gamma|beta|(^|[._])[wb])$"


@dataclass(eq=False)
class _Node:
    """A call that failed, and the changes of it that were not tried yet."""

    tried: Tried
    changes: Iterator[Guess]


@dataclass
class Search(Suggestions):
    """Calls of one function, one instance or one constructor."""

    def run(self) -> Iterator[list[Tried]]:
        """What ran of each few guesses, the likelier first; what came furthest is changed until more is reached."""
        nodes: dict[tuple[Any, str], _Node] = {}
        first: Iterator[Guess] = chain(self._supplied(), self._documented(), self._first())
        guesses = first
        turn = -1
        each = {a.name for a in self.interface.arguments if a.each}
        while len(self.tried) < self.most:
            # A few of the first tell already which of several instances is the right one.
            most = BATCH if self.tried else len(FAMILIES)
            # What is compiled takes long for each shape.
            most = min(most, _COMPILED if self.interface.description["backend"] == "jax" else most)
            some = (g.shared(each).alone for g in islice(guesses, _STALE))
            fresh = (g for g in some if g not in self._known and g.size <= _MOST)
            batch = list(dict.fromkeys(islice(fresh, most)))
            self._known.update(batch)
            made = [Tried(g, reply) for g, reply in zip(batch, self.ask(batch) if batch else [], strict=True)]
            self.tried += made
            for tried in made:
                if tried.error is not None:
                    alike = tried.reached, _words(tried.error["message"])
                    if alike not in nodes:
                        nodes[alike] = _Node(tried, self._changed(tried))
            ran = [tried for tried in made if tried.error is None]
            least = min((tried.guess.size for tried in ran), default=0)
            # What is large takes long, and shows what smaller ones do.
            yield [tried for tried in ran if tried.guess.size <= max(_LARGE, least)]
            if batch and guesses is first:
                # What makes arrays of its own, of the usual width, is asked with such at once.
                narrow = [replace(tried.guess, dtype="float32") for tried in made if _mixes(tried)][:_NARROW]
                # What is documented is right, but for words that it does not call so.
                told = (t for t in made if t.guess.told and t.error is not None and wants_whole(t.error))
                words = [guess for t in told for guess in islice(mended(t.guess, t.error or {}, self._free), _WORDS)]
                first = guesses = chain(narrow, words, first) if narrow or words else first
                continue
            if not batch:
                nodes = {key: node for key, node in nodes.items() if node.changes is not guesses}
            if not nodes:
                return
            # The furthest most of the time: what came far may have come the wrong way, or fitted by accident.
            far = sorted(nodes, key=lambda key: key[0], reverse=True)
            far[1:] = sorted(far[1:], key=lambda key: mixed([kind for _, kind in nodes[key].tried.guess.kinds]))
            turn += 1
            guesses = nodes[far[min(_TURNS[turn % len(_TURNS)], len(far) - 1)]].changes

    @property
    def reached(self) -> tuple[Any, ...]:
        """How far the furthest came."""
        return max((tried.reached for tried in self.tried if tried.error is not None), default=())

    def _changed(self, tried: Tried) -> Iterator[Guess]:
        """A guess with one thing changed: a length, what was asked for, one argument, the dtype, one argument more."""
        guess, error = tried.guess, tried.error or {}
        missing = error.get("missing")
        holders = [path for path, kind in guess.kinds if kind in NAMED]
        if missing is not None and missing["called"] and holders:
            # What is called is a method, and what has it is an array.
            missing = None
        if missing is not None and (holders or missing["owner"] not in ("module", "NoneType")):
            kind = "dictionary" if missing["owner"] == "dict" else "config"
            owners = [path for path in holders if list(path) == missing.get("path", list(path))]
            owners = [
                path for path in owners if dict(guess.kinds)[path] == kind and missing["owner"] in ("Asked", "dict")
            ]
            if not owners:
                yield from (guess.given(path, kind) for path, k in guess.kinds if k != kind and self._free(path))
            taken = [k for _, k in guess.kinds]
            for path in owners:
                # What differs in numbers alone is alike.
                bare = re.sub(r"\d+", "", missing["name"])
                alike = [k for p, k in guess.kinds if p[:-1] == path and re.sub(r"\d+", "", p[-1]) == bare]
                # Beside weights there are weights.
                alike += [k for p, k in guess.kinds if p[:-1] == path and is_floats(k) and set(k) <= set("WPDHGK")][-1:]
                # What is called a weight by its last word is one.
                weight = [self._weight((*path, missing["name"]))] if re.search(_WEIGHTS, missing["name"]) else []
                for kind in dict.fromkeys([*weight, *alike, *self._likely(missing["name"], taken, path)]):
                    yield guess.given((*path, missing["name"]), kind)
        unbound = error.get("type") == "UnboundLocalError"
        if "NoneType" in str(error.get("message")) or unbound or error.get("guarded"):
            # What may be left out is wanted here: what is None in this line, or whatever is.
            free = [a for a in self.interface.arguments if a.name not in guess.names and a.default is None]
            named = [a for a in free if a.name in error.get("absent", ()) and not a.required]
            for argument in named:
                yield from (replace(more, wanted=guess.wanted + 1) for more in self._with(guess, argument))
            for argument in free if not (named or self.makes or error.get("guarded")) else ():
                yield from self._with(guess, argument) if not argument.required else ()
        if _mixes(tried):
            yield replace(guess, dtype="float32")
        others = (replace(guess, lengths=replace(lengths, more=guess.lengths.more)) for lengths in self.ladder)
        if error.get("raised"):
            # What it refuses itself is a length more often than a kind.
            yield from others
        if not self.makes:
            yield from islice(mended(guess, error, self._free), _MENDED)
        yield from others
        # What lies in something else is changed before that.
        paths = [path for path, _ in guess.kinds if self._free(path)]
        paths.sort(key=lambda path: -len(path))
        # A number may be the length of any axis.
        letters = dict.fromkeys(letter for _, kind in guess.kinds for letter in axes_of(kind) if letter not in PLAIN)
        numbers = [f"length of {letter}" for letter in letters if len(letter) == 1] if self.interface.makers else []
        kinds = [*self.kinds, *self._texts, *numbers]
        message = str(error.get("message", ""))
        wanted = {kind for word, some in _WANTED.items() if word in message for kind in some}
        rank = re.search(r"expected (\d)\b|(\d)-?[dD]\b", message)
        if rank is not None:
            wanted |= {kind for kind in FLOATS if len(kind) == int(rank[1] or rank[2])}

        def ways(path: Path) -> list[Guess]:
            # Nothing holds what holds others, but names may.
            some = [kind for kind in kinds if len(path) == 1 or kind not in HOLDERS[2:]]
            now = dict(guess.kinds)[path]
            some = [k for k in some if k not in VALUES or self.interface.allows(path, VALUES[k](guess.lengths))]
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
                first = [self.families[0].get(told, told or "BTW")]
                yield from (guess.given((argument.name,), kind) for kind in dict.fromkeys([*first, *kinds]))

    def _free(self, path: Path) -> bool:
        # What is put together with texts is a text.
        return path[0] not in self.interface.overrides and path not in self.interface.read.texts

    def _with(self, guess: Guess, argument: Argument) -> Iterator[Guess]:
        """The same with one argument more, which is what it would be if it had to be given."""
        face = copy(self.interface)
        face.arguments = [replace(a, required=a.required or a is argument) for a in face.arguments]
        other = Suggestions(
            self.session, face, self.ask, [guess.lengths], self.kinds, self.dtypes[:1], named=self.named
        )
        for some in islice(chain(other._documented(), other._first()), _WITH):
            # It may have axes that nothing else has.
            more = replace(guess, lengths=guess.lengths.beside(some.lengths))
            for path, kind in some.kinds:
                more = more.given(path, kind) if path[0] == argument.name else more
            yield more
        if argument.role == "positions":
            yield guess.given((argument.name,), "positions (B, T)")


def _apart(one: str, two: str) -> tuple[bool, int]:
    """How much two kinds differ: whether they are of one sort, and axes of one that the other does not have."""
    one, two = ("tokens" if kind[:6] == "below " else kind for kind in (one, two))
    sorts = (WHOLE, VALUES, FUNCTIONS, HOLDERS)
    apart = not any(one in sort and two in sort for sort in sorts) and not (is_mask(one) and is_mask(two))
    if is_floats(one) and is_floats(two):
        return False, len(set(one) ^ set(two)) + abs(len(one) - len(two))
    # What was taken for tokens of several samples may be those of one, before it counts or bounds anything.
    return apart, int(one == "tokens" != two[:6])


def _mixes(tried: Tried) -> bool:
    """Whether a call fails since numbers of two widths meet."""
    message = str((tried.error or {}).get("message"))
    return (
        tried.guess.dtype == "float64"
        and re.search(r"(?i)float.*double|double.*float|mixed dtype", message) is not None
    )


def _words(message: str) -> str:
    """What a message says without its numbers, but for the axis that it names."""
    return re.sub(r"(?<!dimension )(?<!axis )\d+", "", message)[:120]
