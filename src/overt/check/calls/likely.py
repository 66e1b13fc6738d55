"""What one argument may be, by its name, its annotation and what the code does with it."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from overt.check.calls.call import (
    KINDS,
    LADDER,
    MOST,
    OWN,
    POSITION,
    RANDOM,
    SAMPLES,
    STREAMS,
    VALUES,
    WHOLE,
    WORD,
    Guess,
    Lengths,
    Tried,
)
from overt.check.calls.trees import HUNG, PARENTS, PATHS
from overt.check.process.session import Here, Session
from overt.check.text.interface import Interface
from overt.check.text.read import Read
from overt.check.text.roles import INPUTS, Argument, constructor_role, role
from overt.check.text.shapes import AXIS_WORDS, Path
from overt.check.text.syntax import parsed

# The kinds that each role of a name suggests, by family: how the arrays of one call lie together.
FAMILIES: tuple[dict[str, str], ...] = (
    {"q": "BHTD", "k": "BGSD", "v": "BGSD", "x": "BTW", "context": "BSW", "qkv": "BTP"},
    {"q": "BTW", "k": "BSW", "v": "BSW", "x": "BHTD", "context": "BGSD", "qkv": "BT3HD"},
    {"q": "BTHD", "k": "BSGD", "v": "BSGD", "x": "BWhw", "context": "BWhw", "qkv": "3BHTD"},
    {"q": "TW", "k": "SW", "v": "SW", "x": "TW", "context": "SW", "qkv": "TP"},
    {"q": "BW", "k": "BSW", "v": "BSW", "x": "BW", "context": "BSW", "qkv": "B3HTD"},
    {"q": "NHD", "k": "NHD", "v": "NHD", "x": "TBW", "context": "SBW", "qkv": "T3HD"},
    {"q": "HTD", "k": "GSD", "v": "GSD", "x": "BW", "context": "BSU", "qkv": "BTH3"},
    {"q": "BHTD", "k": "BSD", "v": "BSD", "x": "BW", "context": "SBU", "qkv": "BTP"},
)
# The same in lists, which are lists of rows before they are anything else; one query is one list.
_LISTS: tuple[dict[str, str], ...] = (
    FAMILIES[3],
    {"q": "W", "k": "SW", "v": "SW", "x": "W", "context": "SW", "qkv": "P"},
    *(family for n, family in enumerate(FAMILIES) if n != 3),
)
SUGGESTED = {
    "mask": "mask (T, S)", "padding": "mask (B, S)", "lengths": "lengths", "heads": "number of heads",
    "groups": "number of key heads", "model_dim": "width of all", "att_dim": "width of all",
    "head_dim": "width of a head", "length": "length", "key_length": "length", "window": "side", "drop": "0.0",
    "causal": "False", "training": "False", "scale": "scale", "temperature": "1.0", "offset": "0", "seed": "0",
    "cache": "None", "positions": "positions", "cos": "cosines", "sin": "sines", "repeats": "1", "vocab": "length",
    "bias": "BHTS", "cap": "2", "first": "True", "layers": "2", "base": "base of rates", "config": "config",
    "params": "dictionary", "samples": SAMPLES,
    "Wq": "WW", "Wk": "WW", "Wv": "WW", "Wo": "WW", "Wqkv": "WP", "bqkv": "P",
    "bq": "W", "bk": "W", "bv": "W", "bo": "W",
}  # fmt: skip
# Weights, biases and gains by their letters.
LETTERS = ("w", "W", "b", "B", "g")
# What words in names that have no role begin with, and what goes by them.
_PARTS = {
    "freq": "turns", "cu_": "bounds", "rot": "turns", "table": "pages", "edge": "edges", "sender": "sources",
    "receiver": "targets",
}  # fmt: skip
# Numbers of which one lies in most ranges that are told.
_BETWEEN = ("scale", "root of a width")
# What things are told apart by, whatever it is.
LABEL = "text: a"
# What sorts of edges a graph has.
_SORTS = "sorts of edges"


def turns_in(asked: Read, path: Path) -> bool:
    """Whether cosines and sines lie in something, by what they are called where they are taken out of it."""
    return {role(asked.called.get((*path, number), "")) for number in "01"} == {"cos", "sin"}


@dataclass
class Likely:
    """A function, an instance or a constructor, and what names and documentation say of its arguments."""

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
    # the letters of axes by the words of the documentation
    _words: dict[str, str] = field(default_factory=dict)
    # what documentation gives shapes of
    _found: set[Path] = field(default_factory=set)

    @property
    def families(self) -> tuple[dict[str, str], ...]:
        """The kinds that each role suggests, the likelier first."""
        return _LISTS if self.interface.description["backend"] == "python" else FAMILIES

    @property
    def makes(self) -> bool:
        """Whether it is a constructor, which is given numbers."""
        return self.kinds[0] in VALUES

    def _axis(self, name: str, lengths: Lengths) -> str | None:
        """The letter of an axis that documentation calls so, of those that have a length; that of samples always."""
        letter = self._words.get(name) or {word.lower(): one for word, one in self._words.items()}.get(name.lower())
        if letter is not None and (letter in "BHTSDWGU" or letter in dict(lengths.more)):
            return letter
        return "B" if re.fullmatch(AXIS_WORDS["B"], name.lower()) and len(name) > 1 else None

    def told(self, argument: Argument) -> str | None:
        """The kind, or the role in a family, that is said or that the name suggests, of those that can be."""
        said = self.interface.overrides.get(argument.name)
        if said is None and argument.name in self.interface.configs:
            return f"{OWN} {self.interface.configs[argument.name]}"
        asked, path = self.interface.read, (argument.name,)
        if said is None and (path in asked.streams or re.search(r"\bRngs\b", argument.annotation)):
            return STREAMS
        if said is None and path in asked.numbers and argument.role in (None, "positions"):
            return "0"
        if said is None and not self.makes and path in asked.numbers and argument.role in ("lengths", "offset"):
            # How many there are already is where the next one stands.
            return POSITION
        tree = argument.role in (None, "positions") and path in asked.hung | asked.branches
        if said is None and not self.makes and tree:
            listed = re.match(r"(typing\.)?([Ll]ist|[Ss]equence|[Tt]uple)\b", argument.annotation)
            return PATHS if path in asked.branches else HUNG if listed else PARENTS
        alone = argument.role in (None, "x", "length", "positions")
        if said is None and not self.makes and alone and self.interface.told_position(argument.name):
            return POSITION
        hides = argument.role in ("mask", "padding", "lengths")
        if said is None and not self.makes and (weight := self._of_lists(argument)) is not None:
            return weight
        if (
            said is None
            and not self.makes
            and path in asked.sides - asked.sized
            and SUGGESTED.get(argument.role or "") not in VALUES
        ):
            # What is a length is no array, whatever it is called; the least that divides most.
            return "2"
        counting = constructor_role(argument.name) is None if self.makes else argument.role == "length"
        if said is None and path in asked.heads and counting:
            # What divides a number of heads is that of the heads that they share.
            return "number of key heads" if asked.heads & asked.divided.get(path, set()) else "number of heads"
        if said is None and self.makes and (constructor_role(argument.name) is None or len(argument.name) == 1):
            # What a number of heads divides is the width of all, whatever letter it is.
            by = [a for a in self.interface.arguments if path in asked.divided.get((a.name,), ())]
            if any(constructor_role(a.name) == "heads" for a in by):
                return "width of all"
        if said is None and self.makes and path in asked.grids and constructor_role(argument.name) is None:
            return "side"
        if said is None and asked.filled(path):
            return "dictionary"
        if said is None and path in asked.texts:
            return f"text: {asked.texts[path]}"
        if said is None and path in asked.labels and argument.role is None:
            return LABEL
        if said is None and argument.role is None and self.interface.told_text(argument.name):
            return next(iter(self._texts), LABEL)
        if said is None and self.absent(argument):
            return "None"
        module = re.search(r"\b(Module|Linear)\b", argument.annotation)
        if said is None and argument.required and (module or path in asked.layers):
            projects = module or SUGGESTED.get(argument.role or "") == "WW"
            return "linear" if projects else "identity"
        if path in asked.parts:
            return "parts of T"
        # What is called positions, and is the last that is seen, is one; what others are added up by counts none.
        counts = asked.lengths - asked.added_by - (asked.last if argument.role == "positions" else set())
        ends = path in asked.bounds | counts and argument.annotation[:3] != "int"
        if said is None and not self.makes and ends:
            return "bounds" if path in asked.bounds else "lengths"
        if (
            said is None
            and self.makes
            and (*path, "1") in asked.held
            and (*path, "3") not in asked.held
            and not turns_in(asked, path)
        ):
            return "triple of sides" if (*path, "2") in asked.held else "pair of sides"
        words = re.sub(r"(?<=[a-z\d])(?=[A-Z])", "_", argument.name).lower()
        part = next((kind for text, kind in _PARTS.items() if re.search(rf"(?<![a-z]){text}", words)), None)
        if said is None and not self.makes and self._ends(path):
            return "edges"
        if said is None and not self.makes and part is None and asked.added_by & asked.picking:
            # What is taken of nodes at one end of an edge is added up at the other.
            # What picks weights alone says of which sort something is.
            picks = asked.picking & asked.moving or asked.picking
            graph = {"targets": asked.added_by, "sources": picks, _SORTS: asked.compared, "TW": asked.tables}
            graph |= {"length": asked.made}
            if (kind := next((kind for kind, some in graph.items() if path in some), None)) is not None:
                return kind
        if said is None and path in asked.alone & asked.whole:
            return "below 3: 1"
        if said is None and not self.makes and argument.role is None and asked.words - asked.alone:
            # Words are looked up, and beside them there may be a number for each.
            kind = "below 4: BT" if path in asked.words else "BT" if path in asked.columns else None
            if kind is not None:
                return kind
        if said is None and not self.makes and not hides and part not in WHOLE:
            # Rows are taken out of a table by numbers, and what is compared with itself counts something.
            if path in asked.tables and argument.role not in (*INPUTS, "positions"):
                return "UW"
            if path in asked.indices | asked.compared and argument.role != "positions":
                return "below 4: T" if path in asked.indices else "below 3: BT"
            if path in asked.picking and argument.role is None:
                # Beside the number of one position stands that of one word.
                if any((a.name,) in asked.numbers for a in self.interface.arguments if a.role == "positions"):
                    return WORD
                if not argument.annotation:
                    return "below 4: BT"
        others = sum(a.required and a.role in (None, *INPUTS) for a in self.interface.arguments)
        if said is None and not self.makes and argument.role is None and others > 2 and path in asked.columns:
            # One number for each key, beside queries and keys.
            return "BS"
        beside = next((a.role for a in self.interface.arguments if a.name == asked.added.get(argument.name)), None)
        own = hides or self.makes or argument.role in (*FAMILIES[0], "bias", "params")
        if said is None and beside in FAMILIES[0] and not own:
            return beside
        role = said or argument.role or ""
        if said is None and self.makes and SUGGESTED.get(role) not in self.kinds:
            # What names an input elsewhere names its width here.
            role = constructor_role(argument.name) or role
        if said is None and path in asked.sized and SUGGESTED.get(role) in VALUES:
            # What is asked for its shape is no number, whatever it is called.
            return None
        if role == "seed" and ("seed" not in argument.name or self.interface.description["backend"] == "jax"):
            return RANDOM
        if not role and argument.name in self.interface.single and path not in asked.sized:
            within = (kind for kind in _BETWEEN if self.interface.allows(path, VALUES[kind](self.ladder[0])))
            return next(within, None)
        for kind in (SUGGESTED.get(role), role if role in FAMILIES[0] else None, part):
            if kind is not None and (kind in self.kinds or (kind in FAMILIES[0] and not self.makes)):
                return kind
        # What is annotated with a number's type is none of the arrays.
        types: dict[str, str | None] = {"[Dd]ict": "dictionary", "Callable": "identity", "bool": "False"}
        types |= {"int": None if self.makes else "number of heads", "float": "0.0" if self.makes else "scale"}
        types |= {"str": next(iter(self._texts), "text: a")}
        for word, suggested in types.items():
            found = re.search(rf"\b{word}\b", argument.annotation)
            if found and suggested is not None and "Tensor" not in argument.annotation[: found.start()]:
                return suggested if suggested in self.kinds or suggested[:6] == "text: " else None
        return None

    def _of_lists(self, argument: Argument) -> str | None:
        """Weights in lists: rows that are multiplied one by one are seen nowhere, and names tell of them."""
        weighs = [a for a in self.interface.arguments if re.match(r"[WU](_?[a-z\d]\w*)?$", a.name)]
        # Where nothing else asks, v is the vector of a score.
        scores = argument.name == "v" and not self.interface.has("q") and not self.interface.has("k")
        if self.interface.description["backend"] != "python" or not (argument in weighs or (scores and weighs)):
            return None
        own = SUGGESTED.get(argument.role or "")
        return own if own not in (None, *VALUES) and argument in weighs else self._weight(("w", argument.name))

    def _ends(self, path: Path) -> bool:
        """Whether the two rows of something pick rows of others, as the ends of edges do."""
        return {(*path, "0"), (*path, "1")} <= self.interface.read.picking

    def absent(self, argument: Argument) -> bool:
        """Whether it is one of a step before, of which there need be none: the code makes it where it is None."""
        made = [a.name for a in self.interface.arguments if (a.name,) in self.interface.read.absent and a.required]
        before = argument.name in made[1:] or re.search(r"prev|past|last|old|cum|cov", argument.name.lower())
        return argument.name in made and argument.role in (None, "cache") and bool(before)

    @property
    def _texts(self) -> list[str]:
        """Texts that the code compares something with: what an argument may be."""
        return [f"text: {text}" for text in compared(self.interface.whole)]

    def _means(self, name: str) -> bool:
        """Whether a name says that something is no weight."""
        found = "params" if name in LETTERS else role(name) or "params"
        return found != "params" and (found[0] not in "Wb" or found in ("base", "bias"))

    def _weight(self, path: Path) -> str:
        """What lies in something is multiplied with, or added, by its name and that of what it lies in."""
        # What a name begins with may be an argument.
        for text in self.interface.read.texts.values():
            path = (*path[:-1], path[-1].removeprefix(text))
        path = (*path[:-1], *path[-1].split("."))
        names = ("_".join(path[-2:]), path[-1])
        mine = next(
            (r for r in map(role, names) if r in SUGGESTED and r[:1] in "Wb" and r not in ("bias", "base")), None
        )
        fewer = self.makes and any(constructor_role(held[-1]) == "groups" for held in self.interface.read.held)
        if mine in ("Wk", "Wv", "bk", "bv") and (fewer or 0 < self.ladder[0].G < self.ladder[0].H):
            # A configuration tells of key heads, of which there may be fewer.
            return "WK" if mine[0] == "W" else "K"
        if mine in ("bqkv", "bq", "bk", "bv", "bo"):
            return SUGGESTED[mine]
        packed = "Wqkv" if role(path[-1]) == "qkv" else None
        whole = SUGGESTED.get(mine or packed or role("_".join(path[-2:])) or role(path[-2]) or "")
        last = path[-1].lower()
        if re.match(r"b(ias)?$|b_|beta|gamma|g$|scale|norm", last) or re.search(r"(^|_)ln|norm", path[-2].lower()):
            return "P" if whole in ("WP", "P") else "W"
        if re.match(r"v(_(?!proj|lin|kernel|w).*)?$", last):
            # The vector of an additive score.
            return "W"
        return whole if whole in ("WP", "WW") else "WW"

    def _likely(self, name: str, taken: Sequence[str] = (), held: Path = ()) -> tuple[str, ...]:
        """What is asked for by name, the likelier first: numbers that no other one is.

        held: what it lies in, by its path.
        """
        first = SUGGESTED.get(constructor_role(name) or "") if self.makes else SUGGESTED.get(role(name) or "")
        if first is None and not self.makes:
            first = self.families[0].get(role(name) or "")
        single = (*held, name) in self.interface.read.single
        if first not in VALUES and (*held, name) in self.interface.read.heads:
            first = "number of heads"
        if single and first not in VALUES:
            # A share of something, of all of it before a number of anything.
            first = "1.0"
        rest = sorted((k for k in self.kinds if not (self.makes or single) or k in VALUES), key=lambda k: k in taken)
        return tuple(dict.fromkeys(kind for kind in (first, *rest) if kind is not None and kind in self.kinds))


@lru_cache(maxsize=64)
def compared(source: str) -> list[str]:
    """Texts that something is compared with in a source."""
    nodes = list(ast.walk(parsed(source)))
    parts = [x for node in nodes if isinstance(node, ast.Compare) for x in (node.left, *node.comparators)]
    parts += [node.value for node in nodes if isinstance(node, ast.MatchValue)]
    parts += [x for node in parts if isinstance(node, ast.Tuple | ast.List | ast.Set) for x in node.elts]
    found = [x.value for x in parts if isinstance(x, ast.Constant) and isinstance(x.value, str)]
    return list(dict.fromkeys(text for text in found if text != "__main__"))[:6]
